"""What people see while they wait, and tables when they ask."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmark.jobs import Job
from benchmark.planning import Cell
from benchmark.prices import prices
from benchmark.records import MetricValue, Record, Status, UtilityRecord
from benchmark.reported import Line
from benchmark.reported import Table as PaperTable
from benchmark.utility import Trial

console = Console(highlight=False, soft_wrap=True)
COLOURS = {Status.OK: "green", Status.UNSUPPORTED: "bright_black"}


class RunDisplay:
    """Progress with time left: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self, cells: Sequence[Cell | Trial]) -> None:
        self.total, self.done, self.started = len(cells), 0, time.monotonic()
        self.expected = {cell.path: max(cell.expected_seconds, 0.2) for cell in cells}
        self.left = sum(self.expected.values())
        self.whole = self.left
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not sys.stdout.isatty(),
        )

    def __enter__(self) -> RunDisplay:
        self.progress.start()
        self.bar = self.progress.add_task("snapshots", total=self.total, left="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def built(self, label: str) -> None:
        """Snapshots were made."""
        self.progress.update(self.bar, description=escape(label))
        if self.progress.disable:
            print(f"built {label}", flush=True)

    def advanced(self, job: Job, event: dict[str, Any]) -> None:
        """An attack said how far it is; plain output leaves this out."""
        words = f"{job.label} · step {event.get('step')}/{event.get('steps')}"
        loss = event.get("loss")
        if isinstance(loss, float):
            words += f" · loss {loss:.4g}"
        self.progress.update(self.bar, description=escape(words))

    def ended(self, cell: Cell | Trial, record: Record | UtilityRecord) -> None:
        """A cell has its record."""
        self.done += 1
        self.left = max(0.0, self.left - self.expected.pop(cell.path, 0.0))
        left = self._time_left()
        self.progress.update(self.bar, advance=1, description=escape(cell.label), left=left)
        reason = f": {record.reason}" if record.reason else ""
        line = f"[{self.done}/{self.total}] {record.status} {cell.label}{reason}"
        if self.progress.disable:
            print(f"{line} ({left})" if left else line, flush=True)
        elif record.status is not Status.OK:
            colour = COLOURS.get(record.status, "red")
            self.progress.console.print(f"[{colour}]{escape(line)}[/]")

    def _time_left(self) -> str:
        """From the pace so far, in units of what earlier runs took."""
        gone = self.whole - self.left
        if gone <= 0 or self.left <= 0:
            return ""
        return f"{duration((time.monotonic() - self.started) / gone * self.left)} left"


def count(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def table(title: str, rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """A plain table; every value is text, never markup."""
    view = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        view.add_column(column, overflow="fold")
    for row in rows:
        view.add_row(*(escape(_cell(row.get(column, ""))) for column in columns))
    console.print(view)


def _cell(value: object) -> str:
    """A value as people read it: settings as `key=value`, long numbers cut."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_default(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _default(value: object) -> str:
    """Of a parameter only its default; of a variant's settings all of them."""
    if isinstance(value, Mapping):
        return _cell(value["default"]) if "default" in value else f"({_cell(value)})"
    return _cell(value)


def show_comparison(paper: PaperTable, lines: Iterable[Line]) -> None:
    """A paper's figures and ours, `theirs | ours [low, high]`."""
    print(f"{paper.table} of {paper.paper}\n{paper.title} ({paper.setting}); theirs | ours")
    rows = []
    for line in lines:
        cells = {
            name: _beside(line.reported.get(name), line.ours.get(name)) for name in paper.metrics
        }
        epsilon = "" if line.epsilon is None else f"{line.epsilon:.3g}"
        rows.append({"row": line.label, **cells, "our ε": epsilon, "note": line.note})
    shown = [name for name in ("our ε", "note") if any(row[name] for row in rows)]
    table(count(len(rows), "row"), rows, ["row", *paper.metrics, *shown])


def _beside(theirs: float | None, ours: MetricValue | None) -> str:
    left = "" if theirs is None else f"{theirs:.4g}"
    right = "" if ours is None else f"{ours.mean:.3f} [{ours.low:.3f}, {ours.high:.3f}]"
    return f"{left} | {right}" if left or right else ""


def show_prices(results: Path, as_json: bool) -> None:
    """What each defense costs on each task."""
    rows: list[dict[str, Any]] = []
    for price in prices(results).values():
        metrics = {name: v.model_dump(exclude={"values"}) for name, v in price.metrics.items()}
        rows.append(vars(price) | {"metrics": metrics})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        costs = {name: row["metrics"].pop(name, None) for name in ("step_seconds", "bytes_up")}
        row |= {name: f"{value['mean']:.4g}" for name, value in costs.items() if value}
        row["utility"] = ", ".join(
            f"{name} {value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
            for name, value in row["metrics"].items()
        )
        row["epsilon"] = "" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
    columns = ["task", "defense", "status", "utility", "step_seconds", "bytes_up", "epsilon"]
    table(count(len(rows), "price"), rows, [*columns, "reason"])
