"""The rankings as a flat list, for whoever shows them without pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leaderboard.data.ranking import Board, Entry, boards
from leaderboard.data.rows import Row, load


@dataclass(frozen=True)
class Standing:
    """One row of a ranking: an attack on a task under a defense, by one metric."""

    task: str
    version: int
    defense: str
    metric: str
    """Empty where the row is in no ranking."""
    rank: int
    """0 where the row is in no ranking."""
    shared: bool
    attack: str
    seed: int
    mean: float
    low: float
    high: float
    seconds: float | None
    cut: int
    """Snapshots that the time limit has cut."""
    status: str
    reason: str


def standings(results: Path, families: dict[str, str]) -> list[Standing]:
    """Every ranking of every board, best first, then the rows that have no rank and why."""
    made = boards(load(results), families)
    return [standing for board in made for standing in _of_board(board)]


def _of_board(board: Board) -> Iterator[Standing]:
    for ranking in board.rankings:
        for entry in ranking.entries:
            yield _standing(entry.row, ranking.metric, entry)
    for row in board.unranked:
        yield _standing(row)


def _standing(row: Row, metric: str = "", entry: Entry | None = None) -> Standing:
    value = entry.value if entry else None
    return Standing(
        task=row.task,
        version=row.record.task_version,
        defense=row.defense,
        metric=metric,
        rank=entry.rank if entry else 0,
        shared=entry.shared if entry else False,
        attack=row.attack,
        seed=row.seed,
        mean=value.mean if value else 0.0,
        low=value.low if value else 0.0,
        high=value.high if value else 0.0,
        seconds=row.seconds,
        cut=row.cut,
        status=row.status,
        reason=row.reason,
    )
