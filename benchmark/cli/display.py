"""What people see while they wait for a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmark.cli.live import LiveSite
from benchmark.execution import events
from benchmark.execution.jobs import Job
from benchmark.results.schema import Record, Status, UtilityRecord
from benchmark.runs.plan import Cell
from benchmark.runs.utility_plan import Trial

COLORS = {Status.OK: "green", Status.UNSUPPORTED: "bright_black"}


class RunDisplay:
    """Progress with time left: a live bar on a terminal, plain lines elsewhere."""

    def __init__(
        self,
        cells: Sequence[Cell | Trial],
        live: LiveSite | None = None,
        out: TextIO | None = None,
    ) -> None:
        self.live, self.out = live, out or sys.stdout
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
            console=Console(file=self.out, highlight=False, soft_wrap=True),
            disable=not self.out.isatty(),
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
            print(f"built {label}", file=self.out, flush=True)

    def advanced(self, job: Job, event: events.Progress) -> None:
        """A job said how far it is; plain output has only the rounds of federated trainings."""
        if event.accuracy is not None:
            words = _after_round(job, event)
            if self.progress.disable:
                print(words, file=self.out, flush=True)
        else:
            words = f"{job.label} · step {event.step}/{event.steps}"
            words += "" if event.loss is None else f" · loss {event.loss:.4g}"
        self.progress.update(self.bar, description=escape(words))

    def ended(self, cell: Cell | Trial, record: Record | UtilityRecord) -> None:
        """A cell has its record."""
        self.done += 1
        if self.live is not None:
            self.live.ended()
        self.left = max(0.0, self.left - self.expected.pop(cell.path, 0.0))
        left = self._time_left()
        self.progress.update(self.bar, advance=1, description=escape(cell.label), left=left)
        reason = f": {record.reason}" if record.reason else ""
        line = f"[{self.done}/{self.total}] {record.status} {cell.label}{reason}"
        if self.progress.disable:
            print(f"{line} ({left})" if left else line, file=self.out, flush=True)
        elif record.status is not Status.OK:
            color = COLORS.get(record.status, "red")
            self.progress.console.print(f"[{color}]{escape(line)}[/]")

    def _time_left(self) -> str:
        """From the pace so far, in units of what earlier runs took."""
        gone = self.whole - self.left
        if gone <= 0 or self.left <= 0:
            return ""
        return f"{duration((time.monotonic() - self.started) / gone * self.left)} left"


def _after_round(job: Job, event: events.Progress) -> str:
    words = f"{job.label} · round {event.step}/{event.steps} · accuracy {event.accuracy:.3f}"
    return words + (f" · {duration(event.seconds_left)} left" if event.seconds_left else "")


def count(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
