"""Attack by defense for each family: what every attack still reads under every defense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmark.metrics.table import main_metrics
from benchmark.status import Status
from leaderboard.data.catalog import TaskRow
from leaderboard.data.ordering import by_family
from leaderboard.data.ranking import NO_DEFENSE, Board
from leaderboard.data.rows import Row


@dataclass(frozen=True)
class HeatCell:
    """One attack under one defense."""

    attack: str
    defense: str
    mean: float | None
    """None where there is no number."""
    label: str
    """The number, or the word that stands in its place."""
    row: Row


@dataclass(frozen=True)
class HeatMap:
    """One task of a family: the one on which most pairs of attack and defense were run."""

    family: str
    task: str
    seed: int
    metric: str
    attacks: tuple[str, ...]
    """The strongest first."""
    defenses: tuple[str, ...]
    """None first, then what leaves most."""
    cells: tuple[HeatCell, ...]


def heat_maps(tasks: Sequence[TaskRow], boards: Iterable[Board]) -> tuple[HeatMap, ...]:
    """A map for each family that was attacked under several defenses."""
    known = [board for board in boards if board.current]
    made = (_of_family(family, own, known) for family, own in by_family(tasks))
    return tuple(each for each in made if each is not None)


def _of_family(family: str, tasks: Sequence[TaskRow], boards: Sequence[Board]) -> HeatMap | None:
    best: HeatMap | None = None
    for task in tasks:
        own = [board for board in boards if board.task == task.name]
        for seed in sorted({board.seed for board in own}):
            made = heat_map(family, [board for board in own if board.seed == seed])
            if made and (best is None or _fullness(made) > _fullness(best)):
                best = made
    return best


def _fullness(made: HeatMap) -> tuple[int, int]:
    return sum(cell.mean is not None for cell in made.cells), len(made.defenses)


def heat_map(family: str, boards: Sequence[Board]) -> HeatMap | None:
    """The map of the boards of one task and seed; None with fewer than two defenses."""
    metric = _metric(family, boards)
    cells = [_cell(board, row, metric) for board in boards for row in board.rows]
    counts = Counter(cell.attack for cell in cells if cell.mean is not None)
    several = {attack for attack, count in counts.items() if count > 1}
    judged = several or set(counts)
    shown = tuple(cell for cell in cells if cell.attack in judged)
    defenses = {cell.defense for cell in shown}
    if len(defenses) < 2:
        return None
    order = sorted(judged, key=lambda attack: (-_most(shown, attack=attack), attack))
    first = sorted(
        defenses, key=lambda name: (name != NO_DEFENSE, -_most(shown, defense=name), name)
    )
    board = boards[0]
    return HeatMap(family, board.task, board.seed, metric, tuple(order), tuple(first), shown)


def _metric(family: str, boards: Sequence[Board]) -> str:
    """The first metric of the family by which an attack is judged that reads the update."""
    rows = [r for board in boards for r in board.rows if r.measured and not r.baseline]
    judged = {name for row in rows if row.score for name in row.score.metrics}
    metrics = main_metrics(family)
    return next((name for name in metrics if name in judged), metrics[0])


def _most(cells: Sequence[HeatCell], attack: str = "", defense: str = "") -> float:
    """Mean over a row, or the greatest of a column."""
    if attack:
        own = [cell.mean for cell in cells if cell.attack == attack and cell.mean is not None]
        return sum(own) / len(own)
    return max((c.mean for c in cells if c.defense == defense and c.mean is not None), default=0.0)


def _cell(board: Board, row: Row, metric: str) -> HeatCell:
    value = row.score.metrics.get(metric) if row.score and row.measured else None
    mean = value.mean if value else None
    label = "" if value else "tokens" if row.status == Status.OK else row.status
    return HeatCell(row.attack, board.defense, mean, label, row)
