"""Prior-guided reordering (FILM, section 4.4): phrases first, then single tokens.

The score of a sentence is its perplexity plus β times the norm of its gradient (equation 4). A norm
is never negative, so candidates whose perplexity alone is too high never have it computed; and what
was scored once and lost can never win later, so it is not scored again. Neither changes the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from submissions.blocks.film.language import Language
from submissions.blocks.film.norms import GradientNorms

Sentence = tuple[int, ...]
Proposer = Callable[[Sentence], Iterable[Sentence]]
CUTS = (3, 5)
"""Fewest and most places at which a sentence is cut into phrases."""


@dataclass(frozen=True)
class SwapBudget:
    """How long to try."""

    phrase_steps: int
    token_steps: int
    proposals: int
    """Candidates of a step."""
    patience: int
    """A phase ends after so many steps without a better sentence; 0: never before its last step."""
    keeps_words: bool
    """Refuse steps that lose a word of the sentence altogether."""
    keeps_length: bool
    """Refuse steps that lead further away from the longest length."""


class Scorer:
    """Equation 4, for many sentences at once."""

    def __init__(self, language: Language, norms: GradientNorms, weight: float) -> None:
        self.language, self.norms, self.weight = language, norms, weight

    def scores(self, sentences: Sequence[Sentence], below: float = float("inf")) -> list[float]:
        """Score of each sentence, or infinity where it cannot be below the bound."""
        found = self.language.perplexities(sentences).tolist()
        hopeful = [n for n, perplexity in enumerate(found) if perplexity < below]
        if self.weight:
            wanted = [sentences[n] for n in hopeful]
            for part in self.language.chunks(wanted):
                norms = self.norms(self.language.encode([wanted[n] for n in part]))
                for n, norm in zip(part, norms.tolist(), strict=True):
                    found[hopeful[n]] += self.weight * norm
        return [score if score < below else float("inf") for score in found]


class Reordering:
    """The search for a better order of one sentence."""

    def __init__(
        self,
        scorer: Scorer,
        effort: SwapBudget,
        words: Sequence[int],
        longest: int,
        seed: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.scorer, self.effort, self.words, self.longest = scorer, effort, words, longest
        self.random = random.Random(seed)
        self.is_over = is_over

    def improve(
        self, sentence: Sequence[int], punctuation: frozenset[int]
    ) -> tuple[float, Sentence]:
        """Score and tokens after all three phases."""
        self.best = tuple(sentence)
        self.score = self.scorer.scores([self.best])[0]
        self.seen = {self.best}
        self._try([shortened(self.best, punctuation)])
        self._phase(self.phrases, self.effort.phrase_steps)
        self._phase(self.tokens, self.effort.token_steps)
        return self.score, self.best

    def _phase(self, propose: Proposer, steps: int) -> None:
        idle = 0
        for _ in range(steps):
            if 0 < self.effort.patience <= idle or self.is_over():
                return
            idle = 0 if self._try(propose(self.best)) else idle + 1

    def _try(self, proposals: Iterable[Sentence]) -> bool:
        """Move to the best new candidate if it is better than what we have."""
        fresh = [p for p in dict.fromkeys(proposals) if p not in self.seen and self._may_be(p)]
        if not fresh:
            return False
        self.seen.update(fresh)
        scores = self.scorer.scores(fresh, below=self.score)
        score, candidate = min(zip(scores, fresh, strict=True))
        if score >= self.score:
            return False
        self.score, self.best = score, candidate
        return True

    def _may_be(self, proposal: Sentence) -> bool:
        """Whether a candidate agrees with what is known about the sentence."""
        if self.effort.keeps_words and not set(self.best) <= set(proposal):
            return False
        short = self.longest - len(self.best)
        return not self.effort.keeps_length or self.longest - len(proposal) <= short

    def phrases(self, sentence: Sentence) -> Iterable[Sentence]:
        """Cut at 3 to 5 places, preferably before words that surprise the model, and permute.

        The paper refers to iterative shuffling (Malkin et al., 2021) for the cuts; that surprise
        is the weight of a place is our reading of it.
        """
        places = len(sentence) - 1
        fewest, most = min(CUTS[0], places), min(CUTS[1], places)
        if places < 1:
            return
        weights = self.scorer.language.surprises(sentence)[1:].cpu().double() + 1e-3
        generator = torch.Generator().manual_seed(self.random.getrandbits(62))
        drawn = torch.multinomial(
            weights.expand(self.effort.proposals, -1), most, generator=generator
        )
        for row in (drawn + 1).tolist():
            cuts = [0, *sorted(row[: self.random.randint(fewest, most)]), len(sentence)]
            pieces = [sentence[a:b] for a, b in pairwise(cuts)]
            self.random.shuffle(pieces)
            yield tuple(token for piece in pieces for token in piece)

    def tokens(self, sentence: Sentence) -> Iterable[Sentence]:
        """Swap two tokens, delete one, or insert one of the bag."""
        for _ in range(self.effort.proposals):
            changed = list(sentence)
            action = self.random.choice(("swap", "delete", "insert"))
            if action == "swap" and len(changed) > 1:
                a, b = self.random.sample(range(len(changed)), 2)
                changed[a], changed[b] = changed[b], changed[a]
            elif action == "delete" and len(changed) > 1:
                del changed[self.random.randrange(len(changed))]
            elif action == "insert" and len(changed) < self.longest:
                changed.insert(self.random.randint(0, len(changed)), self.random.choice(self.words))
            yield tuple(changed)


def shortened(sentence: Sentence, punctuation: frozenset[int]) -> Sentence:
    """Without the segments after the first punctuation mark, redundant if the score says so."""
    places = [place for place, token in enumerate(sentence) if token in punctuation]
    return sentence[: places[0] + 1] if places else sentence
