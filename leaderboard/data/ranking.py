"""Ranks attacks on the same snapshots; ranks that cannot be told apart are shared.

The rule, which the pages state and a reader can check:

1. Only attacks on the same snapshots are ranked together: one board for each task, version,
   defense, seed and set of snapshots.
2. Every pair of attacks is compared snapshot by snapshot, by a sign-flip test of the mean
   difference with Holm's correction over all pairs of the table.
3. From the highest mean down, an attack opens a new rank where one at the current rank is
   significantly better than it; otherwise it shares that rank. Ranks count as in sport (1, 1, 3).

So no two attacks at one rank can be told apart, an attack that is significantly better always ranks
better, none ranks above one with a higher mean, and those of equal mean share a rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.metrics.paired import RULE, all_pairs, can_tell_apart, tied_ranks
from benchmark.metrics.table import METRICS, SENTENCE_METRIC, TYPE_METRIC, main_metrics
from benchmark.results.comparison import Comparable, Guess, best_guesses, comparable
from benchmark.results.schema import MetricValue
from benchmark.suites import NO_DEFENSE
from leaderboard.data.rows import Row, in_order, load

__all__ = [
    "NO_DEFENSE",
    "RULE",
    "SENTENCE_METRIC",
    "TYPE_METRIC",
    "Board",
    "Entry",
    "Guess",
    "Ranking",
    "Row",
    "boards",
    "load",
    "main_metrics",
    "shared_ranks",
]


@dataclass(frozen=True)
class Entry:
    """A ranked row."""

    rank: int
    shared: bool
    """Another row of the ranking has the same rank."""
    row: Row
    value: MetricValue


@dataclass(frozen=True)
class Ranking:
    """The rows of one board, ranked by one metric."""

    metric: str
    entries: tuple[Entry, ...]
    """Best first."""
    token_sets: tuple[Row, ...]
    """Rows left out because they answer with token sets and the metric judges sentences."""
    guess: Guess | None = None
    """The best baseline."""

    @property
    def leaders(self) -> tuple[Entry, ...]:
        """The entries at rank 1; nobody leads where a baseline cannot be told apart from them."""
        first = tuple(entry for entry in self.entries if entry.rank == 1)
        return () if any(entry.row.baseline for entry in first) else first

    @property
    def baseline(self) -> float | None:
        """The mean of the best baseline: what guessing is worth here."""
        return self.guess.value.mean if self.guess else None

    @property
    def decidable(self) -> bool:
        """Whether so few snapshots could tell any two of so many rows apart."""
        rows = len(self.entries)
        return rows < 2 or can_tell_apart(rows * (rows - 1) // 2, self.entries[0].value.n)


@dataclass(frozen=True)
class Board:
    """Everything measured on the same snapshots: of one version of a task, defense and seed."""

    task: str
    version: int
    defense: str
    seed: int
    snapshots: str
    """Digest over the snapshots."""
    current: bool
    """Not of snapshots that newer ones have replaced."""
    rankings: tuple[Ranking, ...]
    unranked: tuple[Row, ...]
    """Rows without a rank in any of the rankings, for their reason to be shown."""
    rows: tuple[Row, ...]
    """All rows: ranked ones by their best ranking, then the unranked."""
    guesses: Mapping[str, Guess]
    """The best baseline by metric, for every recovery metric."""

    def ranking(self, metric: str) -> Ranking | None:
        """The ranking by a metric, if the board has it."""
        return next((r for r in self.rankings if r.metric == metric), None)

    def row(self, attack: str) -> Row | None:
        """The row of an attack, if it was run here."""
        return next((row for row in self.rows if row.attack == attack), None)


def boards(
    rows: Iterable[Row], families: Mapping[str, str], metric: str | None = None
) -> tuple[Board, ...]:
    """One board for each set of snapshots; newest version and no defense first.

    A task that `families` does not name is ranked by every main metric that it was scored with;
    `metric` ranks by that one instead.
    """
    made = [
        _board(group, (metric,) if metric else main_metrics(families.get(group.task, "")))
        for group in comparable(in_order(rows), lambda row: row.record)
    ]
    return tuple(sorted(made, key=_board_order))


def _board_order(board: Board) -> tuple[str, int, bool, str, int, bool]:
    defended = board.defense != NO_DEFENSE
    return board.task, -board.version, defended, board.defense, board.seed, not board.current


def _board(group: Comparable[Row], metrics: tuple[str, ...]) -> Board:
    rows = group.items
    guesses = best_guesses((row.attack, row.score) for row in rows if row.baseline and row.score)
    made = (_ranking(rows, metric, guesses.get(metric)) for metric in metrics)
    rankings = tuple(ranking for ranking in made if ranking.entries)
    ranked = dict.fromkeys(entry.row.key for ranking in rankings for entry in ranking.entries)
    by_key = {row.key: row for row in rows}
    unranked = tuple(row for row in rows if row.key not in ranked)
    ordered = (*(by_key[key] for key in ranked), *unranked)
    place = group.task, group.version, group.defense, group.seed
    return Board(*place, group.snapshots, group.current, rankings, unranked, ordered, guesses)


def _ranking(rows: Sequence[Row], metric: str, guess: Guess | None) -> Ranking:
    scored = [(row, row.score) for row in rows if row.measured and row.score]
    needs_sentences = metric in METRICS and METRICS[metric].needs_sentences
    exempt = {r.key: r for r, _ in scored if needs_sentences and r.token_sets_only}
    judged = [
        (r, s.metrics[metric]) for r, s in scored if r.key not in exempt and metric in s.metrics
    ]
    return Ranking(metric, _entries(judged, metric), tuple(exempt.values()), guess)


def _entries(judged: Sequence[tuple[Row, MetricValue]], metric: str) -> tuple[Entry, ...]:
    upward = metric not in METRICS or METRICS[metric].direction == "higher"
    ranks = shared_ranks([value for _, value in judged], upward)
    made = [
        Entry(rank, ranks.count(rank) > 1, row, value)
        for rank, (row, value) in zip(ranks, judged, strict=True)
    ]
    sign = -1 if upward else 1
    return tuple(sorted(made, key=lambda e: (e.rank, sign * e.value.mean, e.row.key)))


def shared_ranks(values: Sequence[MetricValue], upward: bool = True) -> list[int]:
    """The rank of each value, where more (or less) is better; see the rule above.

    Values that are not of equally many snapshots cannot be paired, and so not told apart.
    """
    sign = 1.0 if upward else -1.0
    means = [round(sign * value.mean, 12) for value in values]
    if len({len(value.values) for value in values}) == 1:
        p_values = all_pairs(sign * np.array([value.values for value in values]))
    else:
        p_values = np.ones((len(values), len(values)))
    return tied_ranks(means, p_values)
