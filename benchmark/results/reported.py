"""The papers' own tables, one JSON file each."""

from __future__ import annotations

import json

from pydantic import ValidationError

from benchmark.errors import UserError, unknown_name
from benchmark.files import FiniteFloat, Strict
from benchmark.metrics.table import METRICS
from benchmark.paths import ROOT
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
    suite: str = ""
    """Whose tasks the rows name, where it is one alone."""
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
