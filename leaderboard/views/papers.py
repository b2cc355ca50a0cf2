"""The papers' tables beside our figures, from whatever has been run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.metrics.table import METRICS
from benchmark.results.reported import Row as ReportedRow
from benchmark.results.reported import Table, load, names
from benchmark.results.schema import MetricValue
from leaderboard.data.rows import Row
from leaderboard.views.trade_off import UtilityCosts


@dataclass(frozen=True)
class ComparedRow:
    """One row of a paper's table with our cell and training beside it."""

    label: str
    reported: Mapping[str, float]
    ours: Mapping[str, MetricValue]
    cell: Row | None
    note: str


@dataclass(frozen=True)
class ComparedTable:
    """One table of a paper, as far as ours stand beside it."""

    name: str
    table: Table
    suite: str
    """Where our figures come from; empty where there are none."""
    rows: tuple[ComparedRow, ...]

    @property
    def measured(self) -> int:
        """Rows with a figure of ours."""
        return sum(bool(row.ours) for row in self.rows)

    @property
    def share(self) -> float:
        """Of the rows, those with a figure of ours."""
        return self.measured / len(self.rows)


Cells = Mapping[tuple[str, str, str], Row]
"""By task, attack and defense; of several seeds the first."""


def compared_tables(
    rows: tuple[Row, ...], costs: UtilityCosts, suites: tuple[str, ...]
) -> tuple[ComparedTable, ...]:
    """Every table, each with its own suite or the one that has most of its rows, fullest first."""
    cells = {(row.task, row.attack, row.defense): row for row in reversed(rows)}
    made = []
    for name in names():
        table = load(name)
        own = [suite for suite in suites if table.suite in ("", suite)]
        tried = [_compared(name, table, suite, cells, costs) for suite in own]
        best = max(tried, key=lambda each: each.measured, default=None)
        made.append(best if best and best.measured else _compared(name, table, "", {}, {}))
    return tuple(sorted(made, key=lambda each: (-each.share, each.table.paper, each.name)))


def _compared(
    name: str, table: Table, suite: str, cells: Cells, costs: UtilityCosts
) -> ComparedTable:
    rows = tuple(_row(table, row, suite, cells, costs) for row in table.rows)
    return ComparedTable(name, table, suite, rows)


def _row(
    table: Table, row: ReportedRow, suite: str, cells: Cells, costs: UtilityCosts
) -> ComparedRow:
    cell = cells.get((f"{suite}/{row.task}", row.attack, row.defense)) if row.task else None
    ours = dict(cell.score.metrics) if cell and cell.score else {}
    cost = costs.get((f"{suite}/{row.trained or row.task}", row.defense))
    if cost and (row.trained or not row.attack):
        traffic = ("bytes_up", "bytes_down")
        ours |= {
            n: v for n, v in cost.metrics.items() if n in traffic or METRICS[n].kind == "utility"
        }
    reported = {m: table.figure(row, m) for m in table.shown}
    return ComparedRow(
        row.label,
        {metric: value for metric, value in reported.items() if value is not None},
        {metric: ours[metric] for metric in table.shown if metric in ours},
        cell,
        _note(row, cell),
    )


def _note(row: ReportedRow, cell: Row | None) -> str:
    if not row.task:
        return "no such model here"
    if cell is None:
        return "" if not row.attack else "not run"
    return cell.reason
