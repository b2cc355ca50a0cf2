"""How the columns of a matrix compare over several lines, each pair on the same lines only.

Each pair of columns meets on every line that both were run on, and the better rank wins. So no
column looks better because it was tried on less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaderboard.views.matrix import Cell, LineKey

Cells = Mapping["LineKey", "Cell"]
"""The cells of one column."""


@dataclass(frozen=True)
class Summary:
    """One column over several lines."""

    wins: int
    ties: int
    losses: int
    """Against each other column, on each line that both were run on."""
    beaten: int
    """Columns that it beats more often than it loses to them, less those that beat it."""
    leads: int


def summaries(keys: Sequence[LineKey], columns: Sequence[Cells], missing: float) -> list[Summary]:
    """The summary of each column; a failed attempt counts as `missing`."""
    met = _meetings(keys, columns, missing)
    return [
        Summary(
            wins=sum(won for won, _, _ in met[place].values()),
            ties=sum(tied for _, tied, _ in met[place].values()),
            losses=sum(lost for _, _, lost in met[place].values()),
            beaten=sum((won > lost) - (lost > won) for won, _, lost in met[place].values()),
            leads=sum(cells[key].leads for key in keys),
        )
        for place, cells in enumerate(columns)
    ]


def _meetings(
    keys: Sequence[LineKey], columns: Sequence[Cells], missing: float
) -> list[dict[int, tuple[int, int, int]]]:
    """For each column, by the place of each other one: lines won, tied and lost."""
    met: list[dict[int, tuple[int, int, int]]] = [{} for _ in columns]
    for first, second in combinations(range(len(columns)), 2):
        both = [(columns[first][key], columns[second][key]) for key in keys]
        results = [_duel(a, b, missing) for a, b in both if a.tried and b.tried]
        won, lost = results.count(1), results.count(-1)
        met[first][second] = (won, results.count(0), lost)
        met[second][first] = (lost, results.count(0), won)
    return met


def _duel(first: Cell, second: Cell, missing: float) -> int:
    """1 where the first has the better rank on a line; a failure loses to any better value."""
    if first.entry and second.entry:
        return (second.entry.rank > first.entry.rank) - (first.entry.rank > second.entry.rank)
    if not first.entry and not second.entry:
        return 0
    worse = _value(first if first.entry else second, missing) == missing
    return 0 if worse else 1 if first.entry else -1


def _value(cell: Cell, missing: float) -> float:
    return cell.entry.value.mean if cell.entry else missing
