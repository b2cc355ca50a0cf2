"""The papers' own tables, and which cells and trainings of ours stand beside their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from benchmark.errors import UserError, unknown_name
from benchmark.files import FiniteFloat, Strict, read_model
from benchmark.metrics.table import METRICS
from benchmark.paths import ROOT
from benchmark.plugins.catalog import Catalog
from benchmark.results.schema import MetricValue, Record, Score
from benchmark.results.store import score_path
from benchmark.results.utility_summary import utility_costs
from benchmark.runs.plan import Cell, Selection, plan_cells
from benchmark.runs.utility_plan import Trial, plan_utility
from benchmark.suites import NO_DEFENSE

FOLDER = ROOT / "leaderboard" / "reported"


class Row(Strict):
    """One row of a paper's table, and what of ours belongs beside it."""

    label: str
    reported: dict[str, FiniteFloat]
    """Figures by the name of our metric, as printed; empty where the row is ours alone."""
    task: str = ""
    """Short name of our task; empty where we have none like it."""
    attack: str = ""
    defense: str = NO_DEFENSE
    trained: str = ""
    """The task whose training gives the utility metrics, where that is another one."""


class Table(Strict):
    """One table of a paper."""

    paper: str
    table: str
    """Its number in the paper."""
    title: str
    setting: str
    percent: list[str]
    """Metrics that the paper prints as percentages and we as fractions."""
    measured: list[str] = []
    """Metrics of ours for which the paper prints no figure, as where it only draws them."""
    counts_specials: bool = False
    """Whether the paper's ROUGE counts special tokens such as `[CLS]`, which ours does not."""
    remark: str = ""
    """What a reader has to know before comparing."""
    rows: list[Row]

    @property
    def metrics(self) -> list[str]:
        """The figures that the table has, in the order of our metrics."""
        used = {name for row in self.rows for name in row.reported} | {*self.measured}
        return [name for name in METRICS if name in used]

    @property
    def shown(self) -> list[str]:
        """Those figures, each followed by ours on the published scale where we have that."""
        return [
            name for metric in self.metrics for name in (metric, self.published(metric)) if name
        ]

    def published(self, metric: str) -> str:
        """The name of our metric on this paper's scale, if it differs from the plain one."""
        name = f"{metric}_with_specials"
        return name if self.counts_specials and name in METRICS else ""

    def figure(self, row: Row, metric: str) -> float | None:
        """A reported figure in our unit, on whichever scale of ours it stands beside."""
        plain = metric.removesuffix("_with_specials") if self.counts_specials else metric
        value = row.reported.get(plain)
        return None if value is None else value * (0.01 if plain in self.percent else 1.0)


def names() -> list[str]:
    """Tables that can be asked for."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Table:
    """A table by name, or a sentence with the nearest names."""
    if name not in names():
        raise unknown_name("table", name, names())
    path = FOLDER / f"{name}.json"
    try:
        table = Table.model_validate_json(path.read_bytes(), strict=True)
    except (ValidationError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not a valid table: {str(error).splitlines()[0]}.") from error
    for metric in {m for row in table.rows for m in row.reported} | {*table.measured}:
        if metric not in METRICS:
            raise unknown_name(f"metric in {path.name}", metric, METRICS)
    return table


# ------------------------------------------------------------------------------------------ ours


@dataclass
class Work:
    """What has to be run for one row."""

    row: Row
    cell: Cell | None = None
    trials: Sequence[Trial] = ()
    note: str = ""
    """Why there is nothing to run, where there is not."""


def plan(
    table: Table, suite: str, attacks: Catalog, defenses: Catalog, results: Path
) -> list[Work]:
    """Our cells and trainings, row by row; a name that we do not have leaves its row empty."""
    with_utility = any(METRICS[name].kind == "utility" for name in table.metrics)
    return [_work(row, with_utility, suite, attacks, defenses, results) for row in table.rows]


def _work(
    row: Row, with_utility: bool, suite: str, attacks: Catalog, defenses: Catalog, results: Path
) -> Work:
    work = Work(row)
    if not row.task:
        work.note = "no such model here"
        return work
    try:
        if row.attack:
            choice = Selection(suite, row.task, row.attack, row.defense)
            work.cell = plan_cells(choice, attacks, defenses, results)[0]
        if with_utility and (row.trained or not row.attack):
            choice = Selection(suite, row.trained or row.task, None, row.defense)
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
    lines = []
    for work in works:
        ours: dict[str, MetricValue] = {}
        note, epsilon = work.note, None
        if work.cell is not None:
            record = read_model(work.cell.path, Record)
            ours |= read_model(score_path(work.cell.path), Score).metrics
            note, epsilon = note or record.reason, record.epsilon
        if work.trials:
            cost = known[work.trials[0].task.name, work.trials[0].defense.name]
            ours |= {n: v for n, v in cost.metrics.items() if METRICS[n].kind == "utility"}
            ours |= {n: v for n, v in cost.metrics.items() if n in ("bytes_up", "bytes_down")}
            note, epsilon = note or cost.reason, epsilon or cost.epsilon
        reported = {m: table.figure(work.row, m) for m in table.shown}
        lines.append(
            Line(
                work.row.label,
                {name: value for name, value in reported.items() if value is not None},
                {name: ours[name] for name in table.shown if name in ours},
                epsilon,
                note,
            )
        )
    return lines


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
