"""The matrices of a suite as CSV: every square with its number, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leaderboard.figures.draw import to_csv
from leaderboard.views.matrix import Cell, Head, Line, Matrix, MissingResult

Fields = dict[str, object]


def matrix_rows(matrix: Matrix, kind: str) -> str:
    """A row for each square of a matrix that was run; `kind` is what its columns are."""
    return to_csv(list(_squares(matrix, kind)))


def _squares(matrix: Matrix, kind: str) -> Iterator[Fields]:
    for line in matrix.lines:
        for head, cell in zip(matrix.heads, line.cells, strict=True):
            if cell.entry or cell.reason:
                yield _place(matrix, line, head, kind) | _square(cell)


def _place(matrix: Matrix, line: Line, head: Head, kind: str) -> Fields:
    name = head.row.attack if kind == "attack" else head.row.defense
    return {
        "family": line.task.family,
        "task": line.task.name,
        "seed": line.seed,
        kind: name,
        "metric": matrix.metric,
    }


def _square(cell: Cell) -> Fields:
    entry = cell.entry
    return {
        "mean": entry.value.mean if entry else None,
        "low": entry.value.low if entry else None,
        "high": entry.value.high if entry else None,
        "n": entry.value.n if entry else None,
        "rank": (entry.rank or None) if entry else None,
        "rank_shared": entry.shared if entry else None,
        "leads": cell.leads,
        "by": entry.row.attack if entry else None,
        "status": "ok" if entry else cell.label,
        "reason": cell.reason,
    }


def missing_rows(missing: Iterable[MissingResult]) -> str:
    """Why cells have no number, as CSV."""
    return to_csv(
        [
            {
                "attack": each.head.row.attack,
                "status": each.label,
                "reason": each.reason,
                "tasks": ", ".join(each.tasks),
            }
            for each in missing
        ]
    )
