"""The full matrix made dense: a block for each family, variants folded under what they vary.

Columns that fewer than half of the lines have a result in, and lines that then have none, are
listed below the block instead of being drawn as dashes. A submission that does not apply to a
family has no column in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.views.matrix import TOKENS_ONLY, Cell, Head, Line, Matrix

LEAST_FILLED = 0.5
FEWEST_COLUMNS = 3
"""The fullest columns stay, however empty they are."""


@dataclass(frozen=True)
class DenseHead:
    """A column, and whether it is a variant of one before it."""

    head: Head
    variant: bool


@dataclass(frozen=True)
class DenseLine:
    """A line with the cells of the kept columns, and whether it varies a line before it."""

    line: Line
    cells: tuple[Cell, ...]
    variant: bool


@dataclass(frozen=True)
class DenseBlock:
    """One family of a matrix."""

    family: str
    heads: tuple[DenseHead, ...]
    lines: tuple[DenseLine, ...]
    rest: tuple[tuple[Line, Head, Cell], ...]
    """Results outside of the kept columns and lines."""

    @property
    def filled(self) -> float:
        """Share of the squares with a number or a reason."""
        cells = [cell for line in self.lines for cell in line.cells]
        return sum(map(_full, cells)) / max(1, len(cells))


def dense_blocks(matrix: Matrix, kind: str) -> tuple[DenseBlock, ...]:
    """A block for each family; `kind` is what the columns are: attack or defense."""
    made = (_block(group.family, group.lines, matrix.heads, kind) for group in matrix.groups)
    return tuple(block for block in made if block.lines)


def _full(cell: Cell) -> bool:
    """Whether a square tells something of its own; that an attack names tokens is told above."""
    return bool(cell.entry or (cell.reason and cell.label != TOKENS_ONLY))


def _count(cells: Sequence[Cell]) -> int:
    """Squares of a column that tell something; none where all of its family is ruled out."""
    return sum(map(_full, cells)) if any(cell.entry or cell.tried for cell in cells) else 0


def _block(family: str, lines: Sequence[Line], heads: Sequence[Head], kind: str) -> DenseBlock:
    columns = range(len(heads))
    counts = [_count([line.cells[place] for line in lines]) for place in columns]
    enough = [c for c in columns if counts[c] and counts[c] >= LEAST_FILLED * len(lines)]
    if len(enough) < FEWEST_COLUMNS:
        fullest = sorted((c for c in columns if counts[c]), key=lambda c: (-counts[c], c))
        enough = sorted(fullest[:FEWEST_COLUMNS])
    kept = [line for line in lines if any(line.cells[c].entry for c in enough)]
    grouped = _by_submission(enough, heads, kind)
    names = {line.task.name for line in kept}
    main = [line for line in kept if not _varies(line, names)]
    return DenseBlock(
        family,
        tuple(
            DenseHead(heads[c], variant or not any(_full(line.cells[c]) for line in main))
            for c, variant in grouped
        ),
        tuple(
            DenseLine(line, tuple(line.cells[c] for c, _ in grouped), _varies(line, names))
            for line in kept
        ),
        tuple(
            (line, heads[c], line.cells[c])
            for line in lines
            for c in columns
            if line.cells[c].entry and (line not in kept or c not in enough)
        ),
    )


def _by_submission(
    columns: Sequence[int], heads: Sequence[Head], kind: str
) -> list[tuple[int, bool]]:
    """Variants directly behind the first column of their submission."""
    groups: dict[str, list[int]] = {}
    for column in columns:
        record = heads[column].row.record
        name = record.attack if kind == "attack" else record.defense
        groups.setdefault(name, []).append(column)
    return [(c, place > 0) for group in groups.values() for place, c in enumerate(group)]


def _varies(line: Line, names: set[str]) -> bool:
    """Whether the block has the task that this one is a variant of."""
    name = line.task.name
    return any(name.startswith(f"{other}-") for other in names)
