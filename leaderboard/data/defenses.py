"""Ranks defenses by what the strongest attack still recovers, on the same private batches.

A defense is ranked only where the whole panel of its suite was tried on it: otherwise the true
worst case may be worse than the one that is known. What is ranked is compared in pairs, snapshot by
snapshot, as attacks are; here less is better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.comparison import Comparable
from benchmark.results.schema import StrongestAttack, WorstCase
from benchmark.results.worst_case import Scored, fullest, worst_case
from benchmark.suites import NO_DEFENSE
from leaderboard.data.ranking import Board, main_metrics, shared_ranks

Panels = Mapping[str, tuple[str, ...]]
"""The attacks that a defense has to face, by task."""


@dataclass(frozen=True)
class DefenseEntry:
    """One defense with its worst case by one metric."""

    case: WorstCase
    strongest: StrongestAttack
    rank: int
    """0 where the panel is incomplete."""
    shared: bool

    @property
    def defense(self) -> str:
        """The defense with its parameters."""
        return self.case.defense


@dataclass(frozen=True)
class DefenseBoard:
    """Defenses of one version of a task with one seed, on the same private batches."""

    task: str
    version: int
    seed: int
    metric: str
    entries: tuple[DefenseEntry, ...]
    """Those that leave least first, then those whose panel is incomplete."""

    @property
    def panel(self) -> tuple[str, ...]:
        """The attacks that every defense has to face."""
        return tuple(member.attack for member in self.entries[0].case.panel)

    @property
    def leaders(self) -> tuple[DefenseEntry, ...]:
        """The defenses at rank 1; nobody leads where no defense at all shares that rank."""
        first = tuple(entry for entry in self.entries if entry.rank == 1)
        return () if any(entry.defense == NO_DEFENSE for entry in first) else first


def worst_cases_of(boards: Iterable[Board], panels: Panels) -> tuple[WorstCase, ...]:
    """The worst case of each board that has one, on the seeds that were attacked by most.

    Boards of former snapshots have none.
    """
    made = [
        worst_case(_group(board), panels.get(board.task, ())) for board in boards if board.current
    ]
    return fullest(case for case in made if case.worst)


def _group(board: Board) -> Comparable[Scored]:
    items = tuple((row.record, row.score) for row in board.rows)
    place = board.task, board.version, board.defense, board.seed
    return Comparable(*place, board.snapshots, board.current, items)


def defense_boards(cases: Iterable[WorstCase], metric: str) -> tuple[DefenseBoard, ...]:
    """One board for each task, version and seed, on the batches that most defenses share.

    Defenses that were attacked on other text than no defense, or than most, are left out: run
    again, they will be compared.
    """
    places: dict[tuple[str, int, int], dict[str, list[WorstCase]]] = {}
    for case in cases:
        if metric in case.worst:
            place = (case.task, case.task_version, case.seed)
            places.setdefault(place, defaultdict(list))[case.truths].append(case)
    return tuple(
        DefenseBoard(*place, metric, _ranked(max(places[place].values(), key=_weight), metric))
        for place in sorted(places)
    )


def main_boards(task: str, family: str, boards: Iterable[DefenseBoard]) -> tuple[DefenseBoard, ...]:
    """A task's boards by its first metric under which an attack reads more than baselines do.

    Where only baselines write sentences, as on federated tasks, that is the F1 of token types.
    """
    own = [board for board in boards if board.task == task]
    metrics = main_metrics(family)
    read = {b.metric for b in own if any(not entry.strongest.baseline for entry in b.entries)}
    metric = next((name for name in metrics if name in read), metrics[0])
    return tuple(board for board in own if board.metric == metric)


def _weight(cases: Sequence[WorstCase]) -> tuple[bool, int, str]:
    return any(case.defense == NO_DEFENSE for case in cases), len(cases), cases[0].truths


def _ranked(cases: Sequence[WorstCase], metric: str) -> tuple[DefenseEntry, ...]:
    complete = [case for case in cases if case.complete]
    ranks = shared_ranks([case.worst[metric].value for case in complete], upward=False)
    by_defense = {case.defense: rank for case, rank in zip(complete, ranks, strict=True)}
    entries = [
        DefenseEntry(
            case,
            case.worst[metric],
            rank := by_defense.get(case.defense, 0),
            ranks.count(rank) > 1,
        )
        for case in cases
    ]
    return tuple(
        sorted(entries, key=lambda e: (not e.rank, e.rank, e.strongest.value.mean, e.defense))
    )
