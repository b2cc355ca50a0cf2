"""Ranks attacks on each task and under each defense; ranks that cannot be told apart are shared.

The rule, which a reader can check against the bars on a task's page:

1. A row's *bound* is the number of rows whose interval lies wholly above its own, and no less
   than the bound of any row whose mean is at least its own.
2. Rows of the same bound share a rank; ranks are counted as in sport (1, 1, 3).

So rows whose intervals overlap with the best of them share its rank, and a wide interval is no
advantage: a row never ranks better than one with a higher mean. It follows that ranks do not
depend on the order of the input, that rows with equal means share a rank, and that a row whose
interval lies wholly above another's always has the better rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from benchmark.metrics.table import SENTENCE_METRIC, TYPE_METRIC, main_metrics
from benchmark.results.schema import MetricValue, Score
from benchmark.suites import NO_DEFENSE
from leaderboard.data.rows import Row, in_order, load

__all__ = [
    "NO_DEFENSE",
    "SENTENCE_METRIC",
    "TYPE_METRIC",
    "Board",
    "Entry",
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
    """The rows of one task under one defense, ranked by one metric."""

    metric: str
    entries: tuple[Entry, ...]
    """Best first."""
    token_sets: tuple[Row, ...]
    """Rows left out because they answer with token sets and the metric judges sentences."""

    @property
    def leaders(self) -> tuple[Entry, ...]:
        """The entries at rank 1; nobody leads where a baseline cannot be told apart from them."""
        first = tuple(entry for entry in self.entries if entry.rank == 1)
        return () if any(entry.row.baseline for entry in first) else first

    @property
    def baseline(self) -> float | None:
        """The mean of the better baseline: what guessing is worth here."""
        return max((e.value.mean for e in self.entries if e.row.baseline), default=None)


@dataclass(frozen=True)
class Board:
    """Everything measured on one version of a task under one defense."""

    task: str
    version: int
    defense: str
    rankings: tuple[Ranking, ...]
    unranked: tuple[Row, ...]
    """Rows without a rank in any of the rankings, for their reason to be shown."""
    rows: tuple[Row, ...]
    """All rows: ranked ones by their best ranking, then the unranked."""


def boards(rows: Iterable[Row], families: dict[str, str]) -> tuple[Board, ...]:
    """One board for each task, version and defense; newest version and no defense first.

    Versions of a task are different measurements and are never ranked together. A task that
    `families` does not name is ranked by every main metric that it was scored with.
    """
    made = [
        _board(tuple(group), main_metrics(families.get(task, "")))
        for (task, _, _), group in groupby(in_order(rows), key=lambda row: row.key[:3])
    ]
    return tuple(sorted(made, key=_board_order))


def _board_order(board: Board) -> tuple[str, int, bool, str]:
    return (board.task, -board.version, board.defense != NO_DEFENSE, board.defense)


def _board(rows: tuple[Row, ...], metrics: tuple[str, ...]) -> Board:
    task, version, defense = rows[0].key[:3]
    rankings = tuple(r for r in (_ranking(rows, metric) for metric in metrics) if r.entries)
    ranked = dict.fromkeys(entry.row.key for ranking in rankings for entry in ranking.entries)
    by_key = {row.key: row for row in rows}
    unranked = tuple(row for row in rows if row.key not in ranked)
    ordered = (*(by_key[key] for key in ranked), *unranked)
    return Board(task, version, defense, rankings, unranked, ordered)


def _ranking(rows: Sequence[Row], metric: str) -> Ranking:
    scored = [(row, row.score) for row in rows if row.measured and row.score]
    exempt = {r.key: r for r, _ in scored if metric == SENTENCE_METRIC and r.token_sets_only}
    judged = [(r, s) for r, s in scored if r.key not in exempt and metric in s.metrics]
    return Ranking(metric, _entries(judged, metric), tuple(exempt.values()))


def _entries(judged: Sequence[tuple[Row, Score]], metric: str) -> tuple[Entry, ...]:
    values = [score.metrics[metric] for _, score in judged]
    ranks = shared_ranks(values)
    made = [
        Entry(rank, ranks.count(rank) > 1, row, value)
        for rank, (row, _), value in zip(ranks, judged, values, strict=True)
    ]
    return tuple(sorted(made, key=lambda entry: (entry.rank, -entry.value.mean, entry.row.key)))


def shared_ranks(values: Sequence[MetricValue]) -> list[int]:
    """The rank of each value, where more is better; see the rule at the top of this file."""
    lows = [min(value.low, value.mean) for value in values]
    highs = [max(value.high, value.mean) for value in values]
    above = [sum(low > high for low in lows) for high in highs]
    bounds = [
        max(count for count, other in zip(above, values, strict=True) if other.mean >= value.mean)
        for value in values
    ]
    return [1 + sum(other < bound for other in bounds) for bound in bounds]
