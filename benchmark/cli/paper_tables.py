"""Which cells and trainings of ours stand beside the rows of the papers' own tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmark.errors import UserError
from benchmark.files import read_model
from benchmark.metrics.table import METRICS
from benchmark.plugins.catalog import Catalog
from benchmark.results.reported import Row, Table
from benchmark.results.schema import MetricValue, Record, Score
from benchmark.results.store import cell_path, score_path
from benchmark.results.utility_summary import UtilityCost, utility_costs
from benchmark.runs.plan import Cell, Selection, plan_cells
from benchmark.runs.utility_plan import Trial, plan_utility

NOT_RUN = "not run"


@dataclass
class Work:
    """What has to be run for one row."""

    row: Row
    cell: Cell | None = None
    trials: Sequence[Trial] = ()
    note: str = ""
    """Why there is nothing to run, where there is not."""
    stored: Path | None = None
    """Where the record of the cell lies, if there is one: published ones need no corpus."""


def plan(
    table: Table, suite: str, attacks: Catalog, defenses: Catalog, results: Path, seed: int = 0
) -> list[Work]:
    """Our cells and trainings, row by row; a name that we do not have leaves its row empty."""
    with_utility = any(METRICS[name].kind == "utility" for name in table.metrics)
    start = Selection(suite, seed=seed)
    return [_work(row, with_utility, start, attacks, defenses, results) for row in table.rows]


def _work(
    row: Row,
    with_utility: bool,
    start: Selection,
    attacks: Catalog,
    defenses: Catalog,
    results: Path,
) -> Work:
    work = Work(row)
    if not row.task:
        work.note = "no such model here"
        return work
    if row.attack:
        names = f"{start.suite}/{row.task}", row.defense, row.attack
        work.stored = cell_path(results, *names, start.seed)
    try:
        if row.attack:
            choice = replace(start, task=row.task, attack=row.attack, defense=row.defense)
            work.cell = plan_cells(choice, attacks, defenses, results)[0]
            work.stored = work.cell.path
        if with_utility and (row.trained or not row.attack):
            choice = replace(start, task=row.trained or row.task, defense=row.defense)
            work.trials = plan_utility(choice, defenses, results)
    except UserError as error:
        work.note = str(error)
    return work


@dataclass(frozen=True)
class Line:
    """A row with our figures beside the paper's."""

    label: str
    reported: Mapping[str, float]
    ours: Mapping[str, MetricValue] = field(default_factory=dict)
    epsilon: float | None = None
    note: str = ""


def compare(table: Table, works: Iterable[Work], results: Path) -> list[Line]:
    """All rows, from what has been run and scored by now."""
    known = utility_costs(results)
    return [_line(table, work, known) for work in works]


def _line(table: Table, work: Work, known: Mapping[tuple[str, str], UtilityCost]) -> Line:
    ours: dict[str, MetricValue] = {}
    note, epsilon, stored = work.note, None, work.stored
    if stored is not None and stored.exists() and score_path(stored).exists():
        record = read_model(stored, Record)
        ours |= read_model(score_path(stored), Score).metrics
        note, epsilon = record.reason, record.epsilon
    for cost in _costs(work, known):
        ours |= {n: v for n, v in cost.metrics.items() if METRICS[n].kind == "utility"}
        ours |= {n: v for n, v in cost.metrics.items() if n in ("bytes_up", "bytes_down")}
        note, epsilon = note or cost.reason, epsilon or cost.epsilon
    reported = {m: table.figure(work.row, m) for m in table.shown}
    return Line(
        work.row.label,
        {name: value for name, value in reported.items() if value is not None},
        {name: ours[name] for name in table.shown if name in ours},
        epsilon,
        note or ("" if ours else NOT_RUN),
    )


def _costs(work: Work, known: Mapping[tuple[str, str], UtilityCost]) -> list[UtilityCost]:
    """What the row's training costs in utility, where it has been trained."""
    keys = {(trial.task.name, trial.defense.name) for trial in work.trials}
    return [known[key] for key in keys if key in known]


def flat(table: Table, lines: Iterable[Line]) -> list[dict[str, object]]:
    """One row for each line and metric: reported, ours, low, high."""
    rows: list[dict[str, object]] = []
    for line in lines:
        for name in table.shown:
            value = line.ours.get(name)
            rows.append(
                {
                    "row": line.label,
                    "metric": name,
                    "reported": line.reported.get(name),
                    "ours": value.mean if value else None,
                    "low": value.low if value else None,
                    "high": value.high if value else None,
                    "n": value.n if value else None,
                    "epsilon": line.epsilon,
                    "note": line.note,
                }
            )
    return rows
