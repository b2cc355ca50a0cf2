"""What people see while they wait, and tables when they ask."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmark.jobs import Job
from benchmark.planning import Cell
from benchmark.records import Record, Status

console = Console(highlight=False, soft_wrap=True)
COLOURS = {Status.OK: "green", Status.UNSUPPORTED: "bright_black"}


class RunDisplay:
    """Progress with time left: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self, cells: Sequence[Cell]) -> None:
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

    def ended(self, cell: Cell, record: Record) -> None:
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
        view.add_row(*(escape(str(row.get(column, ""))) for column in columns))
    console.print(view)
