"""Guess without looking: sentences of the public text, drawn at random.

Several sentences are sought and each found one counts by a loose measure (`sentence_recall`), so a
list of plausible sentences scores well above zero: what this attack reaches is no leak.
"""

from __future__ import annotations

import random

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Public, Recovery


class PublicSentences(Attack):
    """The baseline of multi-sentence recall: whole public sentences, none of them private."""

    name = "public_sentences"
    summary = "Answers with random sentences of the public text, ignoring the update."
    needs = frozenset({Knowledge.PUBLIC_TEXT})
    baseline = True
    parameters = {
        "sentences": Parameter(
            32, "Sentences to answer with; at least as many as asked for.", low=1
        )
    }

    def prepare(self, public: Public) -> None:
        """Tokenize the public text once, cut where private sentences are cut."""
        encoded = public.tokenizer(list(public.text), add_special_tokens=False)["input_ids"]
        allowed = [[i for i in ids if i not in public.forbidden_ids] for ids in encoded]
        self.sentences = [ids[: public.max_tokens] for ids in allowed if ids]

    def recover(self, observation: Observation) -> Recovery:
        """As many as the setting names or the batch has, each once."""
        wanted = max(int(self.settings["sentences"]), observation.batch_size)
        generator = random.Random(observation.seed)
        return Recovery(generator.sample(self.sentences, min(wanted, len(self.sentences))))
