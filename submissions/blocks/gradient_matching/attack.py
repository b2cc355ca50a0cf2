"""What the gradient-matching attacks have in common: from observations to searches and back."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmark.spec import Attack, Knowledge, Observation, Recovery, Unsupported
from submissions.blocks.gradient_matching.build import build_matcher, padding_shows, samples_of
from submissions.blocks.gradient_matching.distances import Distance
from submissions.blocks.gradient_matching.matcher import Matcher
from submissions.blocks.gradient_matching.problem import Problem, layout_of, problems_of
from submissions.blocks.gradient_matching.samples import Samples
from submissions.blocks.gradient_matching.search import Descent, Search
from submissions.blocks.gradient_matching.start import start_gaussian

_GRAPH = 8
"""Bytes that a continuous step takes, as a multiple of what the forward pass saves."""


class MatchingAttack(Attack):
    """Searches several snapshots side by side, as many as the memory budget allows."""

    uses = frozenset({Knowledge.LABELS, Knowledge.LENGTHS})
    objectives = frozenset({"classification", "causal-lm"})

    @abstractmethod
    def distance(self) -> Distance:
        """The loss between gradients."""

    def search(self, search: Search) -> None:
        """The algorithm, which moves `search` to its answer: as DLG has it, and TAG."""
        start_gaussian(search)
        for step in search.steps():
            search.descend(step)

    def length_weight(self) -> float:
        """Weight of LAMP's embedding length regularizer: none, unless an attack says so."""
        return 0.0

    def remark(self, observation: Observation) -> str:
        """A sentence for the record on how this attack ran here."""
        return ""

    def recover(self, observation: Observation) -> Recovery:
        """One snapshot is a joint search of one."""
        return self.recover_many([observation])[0]

    def recover_many(self, observations: Sequence[Observation]) -> list[Recovery]:
        """Search all snapshots side by side; the answers are those of separate searches."""
        groups: dict[tuple[object, ...], list[Problem]] = defaultdict(list)
        equal_lengths = padding_shows(observations[0].public) if observations else False
        for number, observation in enumerate(observations):
            for problem in self._problems(observation, number):
                groups[_kind(problem, equal_lengths)].append(problem)
        together = [part for problems in groups.values() for part in self._divided(problems)]
        found: dict[int, list[tuple[float, Recovery]]] = defaultdict(list)
        for number, problems in enumerate(together):
            share = 1 / (len(together) - number)
            for problem, loss, recovery in self._reconstruct(problems, share):
                found[problem.number].append((loss, recovery))
        return [_best(found[number]) for number in range(len(observations))]

    def _problems(self, observation: Observation, number: int) -> list[Problem]:
        optimized, skips = self.word("labels") == "optimized", self.word("zeros") == "skipped"
        return problems_of(observation, number, optimized, skips)

    def _reconstruct(
        self, problems: Sequence[Problem], share: float
    ) -> list[tuple[Problem, float, Recovery]]:
        """One joint search, with its share of the remaining time."""
        layout = layout_of(problems)
        matcher, how = self._matcher(problems)
        budget, descent = self._budget(problems), self._descent()
        search = Search(problems, layout, matcher, descent, self.length_weight(), budget, share)
        with matcher:
            self.search(search)
            if self.word("answer") == "last":
                search.settle(
                    matcher.losses(search.points(search.embeddings[:, None]), False)[:, 0]
                )
        notes = [how, _early_end(search), self.remark(problems[0].observation)]
        note, cut = " ".join(part for part in notes if part), search.clock.stopped
        sentences, losses = search.tokens(search.best), search.best_losses.tolist()
        return [
            (problem, losses[p], Recovery(sentences[p], note=note, stopped_by_clock=cut))
            for p, problem in enumerate(problems)
        ]

    def _samples(self, problems: Sequence[Problem]) -> Samples:
        return samples_of(problems, layout_of(problems), self.word("labels") == "optimized")

    def _matcher(self, problems: Sequence[Problem]) -> tuple[Matcher, str]:
        samples = self._samples(problems)
        weighting = self.word("layer_weighting") if "layer_weighting" in self.settings else "none"
        return build_matcher(
            problems, samples, self.distance(), weighting, self.flag("simulate_steps")
        )

    def _descent(self) -> Descent:
        return Descent(
            steps=self.whole("steps"),
            learning_rate=self.number("learning_rate"),
            decay=self.number("decay"),
            decay_every=self.whole("decay_every"),
            optimizer=self.word("optimizer"),
            horizon=self.whole("horizon"),
            clip=self.number("clip"),
        )

    def _divided(self, problems: Sequence[Problem]) -> list[list[Problem]]:
        """As many together as targets and the graph of a continuous step fit into the budget.

        Those of like length, since sentences are padded to the longest.
        """
        by_length = sorted(problems, key=lambda problem: -max(problem.lengths))
        if len(problems) == 1:
            return [by_length]
        longest = by_length[0]
        each = sum(tensor.nbytes for tensor in longest.target.values())
        each += _GRAPH * self._samples([longest]).bytes_per_row * len(longest.lengths)
        size = max(1, self._budget(problems) // each)
        return [by_length[first : first + size] for first in range(0, len(problems), size)]

    def _budget(self, problems: Sequence[Problem]) -> int:
        """Bytes: the setting, or half of what a GPU has left, or 1 GiB."""
        device = problems[0].observation.public.device
        if self.whole("memory_mb"):
            return self.whole("memory_mb") << 20
        if device.type == "cuda":
            return int(torch.cuda.mem_get_info(device)[0]) // 2
        return 1 << 30

    def number(self, name: str) -> float:
        """A setting that is a number."""
        return float(self.settings[name])

    def whole(self, name: str) -> int:
        """A setting that is a whole number."""
        return int(self.settings[name])

    def word(self, name: str) -> str:
        """A setting that is a word."""
        return str(self.settings[name])

    def flag(self, name: str) -> bool:
        """A setting that is on or off."""
        return bool(self.settings[name])


def _best(found: Sequence[tuple[float, Recovery]]) -> Recovery:
    """The answer of smallest loss among searches for one batch; time may have cut any of them."""
    cut = any(recovery.stopped_by_clock for _, recovery in found)
    return replace(min(found, key=lambda pair: pair[0])[1], stopped_by_clock=cut)


def _early_end(search: Search) -> str:
    """What time has cut, if anything."""
    if search.stopped_at:
        return f"Stopped after {search.stopped_at} of {search.descent.steps} steps."
    return "For want of time fewer starts or orders were tried." if search.clock.stopped else ""


def _kind(problem: Problem, equal_lengths: bool) -> tuple[object, ...]:
    """Problems of one kind can be searched side by side."""
    if equal_lengths and len(set(problem.lengths)) > 1:
        raise Unsupported(
            "this classifier reads its answer at the last place, so a batch of sentences of "
            "different lengths cannot be matched through their embeddings"
        )
    update = problem.observation.update
    steps = (update.kind, update.local_steps, update.learning_rate)
    lengths = problem.lengths if equal_lengths else len(problem.lengths)
    return (lengths, problem.classes is None, tuple(problem.target), steps, problem.sparse)
