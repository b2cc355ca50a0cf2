"""FILM: the bag of words, put into order by the observed language model itself.

The stages are those of the paper: the bag (`blocks/bag.py`), beam search over it, repeated with a
penalty on what was found where the batch has several sentences (`blocks/film/beam.py`), and
reordering under perplexity and gradient norm (`blocks/film/reorder.py`).
"""

from __future__ import annotations

import torch

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Recovery
from submissions.blocks.clock import Clock
from submissions.blocks.film.beam import Penalties, Plan, beam_search, start_words
from submissions.blocks.film.language import Language
from submissions.blocks.film.norms import GradientNorms
from submissions.blocks.film.reorder import Reordering, Scorer, Sentence, SwapBudget
from submissions.blocks.token_sets.bag import NOISE_OVER, Bag, read_bag

FOUND = 128
"""Sentences that are sought at most where the number of repetitions is left to the attack."""
MARKS = frozenset(".,;:!?")


class Film(Attack):
    """Bag of words, beam search, prior-guided reordering, and all that repeated."""

    name = "film"
    summary = "Puts the bag of words into sentences by beam search and reordering."
    paper = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"
    uses = frozenset({Knowledge.NOISE_SCALE})
    objectives = frozenset({"causal-lm"})
    parameters = {
        "beams": Parameter(32, "Beams of a search.", low=1),
        "groups": Parameter(
            8, "Groups that the beams are divided into, all of one size: rounded up.", low=1
        ),
        "diversity": Parameter(
            0.1, "Taken off for each beam of an earlier group that chose the same word.", low=0
        ),
        "ngram": Parameter(
            2, "Length of the n-grams that are penalized when repeated; 0: none.",
            choices=(0, 2, 3, 4),
        ),
        "ngram_penalty": Parameter(
            100.0, "Off the log-probability for an n-gram repeated in a sentence; 100 forbids.",
            low=0,
        ),
        "found_penalty": Parameter(
            2.0, "The same for an n-gram of a sentence that was found before (a guess).", low=0
        ),
        "uneven_penalty": Parameter(
            4.0, "Not in the paper: in a batch of one, for a word used again or left out.",
            low=0,
        ),
        "starts": Parameter(
            "bare",
            "Words that may begin a sentence: capital (with a capital letter, as in the paper), "
            "bare (those without a space before them, where the bag has any; ours), or any.",
            choices=("bare", "capital", "any"),
        ),
        "longest": Parameter(40, "Words of a sentence at most.", low=1),
        "length_power": Parameter(
            1.0, "A sentence's log-probability is divided by its length to this power.", low=0
        ),
        "frequencies": Parameter(
            "unknown", "unknown, or oracle: each word as often as it occurs, told by the task.",
            choices=("unknown", "oracle"), needs=frozenset({Knowledge.FREQUENCIES}),
        ),
        "repetitions": Parameter(
            0, f"Beam searches; 0: one a sentence of the batch, at most {FOUND}.", low=0
        ),
        "phrase_steps": Parameter(200, "Steps of phrase-wise reordering.", low=0),
        "token_steps": Parameter(200, "Steps of token-wise reordering.", low=0),
        "proposals": Parameter(64, "Candidates of a reordering step.", low=1),
        "patience": Parameter(
            5, "A phase ends after so many steps without success; 0: it never ends early.", low=0
        ),
        "single_rules": Parameter(
            True,
            "Not in the paper: in a batch of one, the sentence has the length that positions show, "
            "and no reordering step loses a word of the bag.",
        ),
        "norm_weight": Parameter(1.0, "β, the weight of the gradient norm.", low=0),
        "noise_over": NOISE_OVER,
        "fallback": Parameter(
            "none", "Where no bag can be read: answer nothing, or sample from the prior.",
            choices=("none", "prior"), needs=frozenset({Knowledge.PRIOR}),
        ),
    }  # fmt: skip
    variants = {
        "film_paper": {
            "single_rules": False,
            "uneven_penalty": 0.0,
            "starts": "capital",
            "patience": 0,
            "phrase_steps": 100,
            "token_steps": 100,
        },
        "film_beam_only": {"phrase_steps": 0, "token_steps": 0},
        "film_oracle_frequency": {"frequencies": "oracle"},
    }

    def recover(self, observation: Observation) -> Recovery:
        """Ranked sentences and the bag they are made of."""
        bag = read_bag(observation, str(self.settings["noise_over"]))
        if not len(bag):
            return self._without_a_bag(observation, bag)
        language, clock = Language(observation.public), Clock(observation.seconds_left)
        plan = self._plan(observation, language, bag)
        found = self._search(observation, language, plan, clock)
        ranked = self._reorder(observation, language, plan, found, clock)
        note = bag.note
        if clock.stopped:
            note = f"{note} The time limit ended the search.".strip()
        types = frozenset(bag.types.tolist())
        return Recovery(ranked, types, note, stopped_by_clock=clock.stopped)

    def _without_a_bag(self, observation: Observation, bag: Bag) -> Recovery:
        """Nothing, or what the prior says where that is asked for."""
        if self.settings["fallback"] == "none":
            return Recovery(token_types=frozenset(), note=bag.note)
        public = observation.public
        assert public.prior is not None  # granted, since it is needed
        sentences = public.prior.sample(observation.batch_size, public.max_tokens, observation.seed)
        return Recovery(sentences, note=f"{bag.note} Sampled from the prior instead.")

    def _plan(self, observation: Observation, language: Language, bag: Bag) -> Plan:
        return Plan(
            words=bag.types,
            starts=start_words(observation.public, bag.types, str(self.settings["starts"])),
            start=language.start[-1],
            longest=self._longest(observation, language, bag),
            is_length=bool(bag.longest) and self._is_single(observation),
            beams=self._whole("beams"),
            groups=self._whole("groups"),
            penalties=Penalties(
                ngram=self._whole("ngram"),
                repeated=float(self.settings["ngram_penalty"]),
                found=float(self.settings["found_penalty"]),
                diversity=float(self.settings["diversity"]),
                uneven=float(self.settings["uneven_penalty"])
                if self._is_single(observation)
                else 0,
            ),
            length_power=float(self.settings["length_power"]),
            counts=self._counts(observation, bag),
        )

    def _is_single(self, observation: Observation) -> bool:
        return observation.batch_size == 1 and bool(self.settings["single_rules"])

    def _longest(self, observation: Observation, language: Language, bag: Bag) -> int:
        """Words of the longest sentence: as the positions show it, or as limited."""
        special = len(language.start) + len(language.end)
        seen = bag.longest - special if bag.longest else language.space
        return max(1, min(self._whole("longest"), language.space, seen))

    def _counts(self, observation: Observation, bag: Bag) -> torch.Tensor | None:
        if self.settings["frequencies"] == "unknown":
            return None
        assert observation.frequencies is not None  # granted, since they are needed
        counts = [observation.frequencies.get(word, 0) for word in bag.types.tolist()]
        return torch.tensor(counts, device=bag.types.device)

    def _search(
        self, observation: Observation, language: Language, plan: Plan, clock: Clock
    ) -> list[Sentence]:
        """Beam search again and again, each time away from what was found (section 4.5)."""
        wanted = self._whole("repetitions") or min(observation.batch_size, FOUND)
        found: list[Sentence] = []
        for number in range(wanted):
            if found and clock.is_up():
                break
            model = language.continuations(plan.words)
            for score, sentence in beam_search(model, plan, found, clock.is_up):
                if tuple(sentence) not in found:
                    found.append(tuple(sentence))
                    observation.report(number + 1, 2 * wanted, -score)
                    break
        return found

    def _reorder(
        self,
        observation: Observation,
        language: Language,
        plan: Plan,
        found: list[Sentence],
        clock: Clock,
    ) -> list[Sentence]:
        """Every sentence on its own, best score first; two never become one."""
        update, public = observation.update, observation.public
        norms = GradientNorms(public.model, public.objective, update.tensors.keys())
        scorer = Scorer(language, norms, float(self.settings["norm_weight"]))
        effort = SwapBudget(
            phrase_steps=self._whole("phrase_steps"),
            token_steps=self._whole("token_steps"),
            proposals=self._whole("proposals"),
            patience=self._whole("patience"),
            keeps_words=self._is_single(observation),
            keeps_length=plan.is_length,
        )
        words, marks = plan.words.tolist(), self._marks(observation, plan)
        results: dict[Sentence, float] = {}
        for number, sentence in enumerate(found):
            search = Reordering(
                scorer, effort, words, plan.longest, observation.seed + number, clock.is_up
            )
            score, better = search.improve(sentence, marks)
            results[sentence if better in results else better] = score
            observation.report(len(found) + number + 1, 2 * len(found), score)
        return sorted(results, key=lambda sentence: results[sentence])

    def _marks(self, observation: Observation, plan: Plan) -> frozenset[int]:
        """Punctuation marks of the bag, after which the rest may be redundant."""
        texts = observation.public.tokenizer.batch_decode(plan.words[:, None])
        pairs = zip(plan.words.tolist(), texts, strict=True)
        return frozenset(word for word, text in pairs if text.strip() in MARKS)

    def _whole(self, name: str) -> int:
        return int(self.settings[name])
