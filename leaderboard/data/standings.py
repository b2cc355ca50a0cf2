"""The rankings as a flat list, for whoever shows them without pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leaderboard.data.ranking import Board, Entry, Ranking, boards
from leaderboard.data.rows import Row, load


@dataclass(frozen=True)
class Standing:
    """One row of a ranking: an attack on a task under a defense, by one metric."""

    task: str
    version: int
    defense: str
    seed: int
    current: bool
    """Not of snapshots that newer ones have replaced."""
    metric: str
    """Empty where the row is in no ranking."""
    rank: int
    """0 where the row is in no ranking."""
    shared: bool
    decidable: bool
    """Whether so few snapshots could tell any two of the ranking apart."""
    attack: str
    mean: float
    low: float
    high: float
    n: int
    guess: float | None
    """What the best baseline reaches on the same snapshots."""
    seconds: float | None
    cut: int
    """Snapshots that the time limit has cut."""
    status: str
    reason: str


def standings(
    results: Path, families: Mapping[str, str], metric: str | None = None
) -> list[Standing]:
    """Every ranking of every board, best first, then the rows that have no rank and why."""
    made = boards(load(results), families, metric)
    return [standing for board in made for standing in _of_board(board)]


def _of_board(board: Board) -> Iterator[Standing]:
    for ranking in board.rankings:
        for entry in ranking.entries:
            yield _standing(board, entry.row, ranking, entry)
    for row in board.unranked:
        yield _standing(board, row)


def _standing(
    board: Board, row: Row, ranking: Ranking | None = None, entry: Entry | None = None
) -> Standing:
    value = entry.value if entry else None
    return Standing(
        task=board.task,
        version=board.version,
        defense=board.defense,
        seed=board.seed,
        current=board.current,
        metric=ranking.metric if ranking else "",
        rank=entry.rank if entry else 0,
        shared=entry.shared if entry else False,
        decidable=ranking.decidable if ranking else True,
        attack=row.attack,
        mean=value.mean if value else 0.0,
        low=value.low if value else 0.0,
        high=value.high if value else 0.0,
        n=value.n if value else 0,
        guess=ranking.baseline if ranking else None,
        seconds=row.seconds,
        cut=row.cut,
        status=row.status,
        reason=row.reason,
    )
