"""Guess without looking: words drawn at random from public text."""

from __future__ import annotations

import random

from benchmark.spec import Attack, Knowledge, Observation, Public, Recovery


class Random(Attack):
    """The baseline of every board: what an attack scores that reads no gradient at all."""

    name = "random"
    summary = "Draws each token from the frequencies of the public text, ignoring the update."
    needs = frozenset({Knowledge.PUBLIC_TEXT})
    uses = frozenset({Knowledge.LENGTHS})
    baseline = True

    def prepare(self, public: Public) -> None:
        """Tokenize the public text once."""
        encoded = public.tokenizer(list(public.text), add_special_tokens=False)["input_ids"]
        self.tokens = [i for ids in encoded for i in ids if i not in public.forbidden_ids]
        self.lengths = [len(ids) for ids in encoded]

    def recover(self, observation: Observation) -> Recovery:
        """As many sentences as the batch has, of public or known lengths."""
        generator = random.Random(observation.seed)
        known = observation.lengths or ()
        lengths = known or generator.choices(self.lengths, k=observation.batch_size)
        return Recovery([generator.choices(self.tokens, k=length) for length in lengths])
