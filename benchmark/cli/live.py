"""Pages that grow while a run goes on, made by a process of low priority beside it.

The run only tells how many cells have ended. Whatever becomes of the pages, it is not held up: a
refresh that fails is named once, and the run goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from benchmark.errors import UserError
from benchmark.plugins.registry import SiteContent

FIRST_SECONDS = 20.0
"""Running time before the first page; a shorter run has its page at the end."""
EVERY_SECONDS = 45.0
SHARE = 0.02
"""Of a core's time that refreshing may take: a costly refresh is made less often."""
FINAL_SECONDS = 180.0
"""How long the last rendering is waited for; after an interrupt, a tenth of it."""
NICENESS = 10


@dataclass(frozen=True)
class Settings:
    """What the process that renders is told at its start."""

    results: Path
    out: Path
    content: SiteContent
    """What the pages tell beside the results, from `listing.site_content`."""
    total: int
    """Cells of the plan."""
    more: bool = False
    """Another command follows and renders: the pages stay marked, and are not made at the end."""
    first_seconds: float = FIRST_SECONDS
    every_seconds: float = EVERY_SECONDS
    share: float = SHARE


@dataclass
class LiveSite:
    """The running command's end: starts the process, tells it of cells, and waits at the end."""

    settings: Settings
    done: int
    """Cells that have their record."""
    fine: bool = False
    """Whether the last rendering succeeded."""

    def __enter__(self) -> LiveSite:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks
        reader, self._told = context.Pipe(duplex=False)
        os.set_blocking(self._told.fileno(), False)
        self._process = context.Process(target=serve, args=(reader, self.settings), daemon=True)
        try:
            self._process.start()
        except OSError as error:
            print(f"There are no pages until the run is over: {error}", file=sys.stderr)
        reader.close()
        self._tell(self.done)
        return self

    def ended(self) -> None:
        """One more cell has its record."""
        self.done += 1
        self._tell(self.done)

    def _tell(self, news: int | None) -> None:
        """Send without blocking: what a busy or dead process cannot take is not waited for."""
        with contextlib.suppress(OSError):
            self._told.send(news)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._tell(None)
        self._told.close()  # which is the end, and asks for the last rendering
        if self._process.pid is not None:
            self._process.join(FINAL_SECONDS / (10 if kind else 1))
            self.fine = self._process.exitcode == 0


# ------------------------------------------------------------------------- in the other process


def serve(told: Connection, settings: Settings) -> None:
    """Render whenever cells have ended and it is time; then once more, if nothing follows."""
    _step_back()
    page = _Page(settings)
    due = time.monotonic() + settings.first_seconds
    shown = done = told.recv()  # the cells that were there before
    more = settings.more
    with contextlib.suppress(EOFError):
        while True:
            wait = None if shown == done else max(0.0, due - time.monotonic())
            if not told.poll(wait):
                cost = page.refresh((done, settings.total))
                shown, due = (
                    done,
                    time.monotonic() + max(settings.every_seconds, cost / settings.share),
                )
            elif (news := told.recv()) is None:
                more = False  # the run was cut short
            else:
                done = news
    if not more:
        page.refresh(None)
    sys.exit(0 if page.fine else 1)


def _step_back() -> None:
    """One thread, low priority, no GPU, and an interrupt ends the run first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if hasattr(os, "nice"):
        os.nice(NICENESS)


class _Page:
    """Scores and renders; keeps whether that went well the last time."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.fine, self._complained = settings, False, False

    def refresh(self, running: tuple[int, int] | None) -> float:
        """Bring scores and pages up to date; returns the seconds of processor time it took."""
        start = time.process_time()
        if not self.settings.results.is_dir():
            return 0.0  # no cell has ended
        try:
            try:
                score_and_render(self.settings, running)
            except (UserError, OSError):  # a file may have changed while it was read
                score_and_render(self.settings, running)
            self.fine = True
        except Exception as error:
            self._complain(error)
        return time.process_time() - start

    def _complain(self, error: Exception) -> None:
        self.fine = False
        if not self._complained:
            words = " ".join(str(error).split()) or type(error).__name__
            print(f"The pages could not be refreshed: {words}", file=sys.stderr, flush=True)
        self._complained = True


def score_and_render(settings: Settings, running: tuple[int, int] | None = None) -> None:
    """Pages of everything that is recorded by now."""
    from benchmark.plugins.registry import render_site
    from benchmark.results import scoring, worst_case

    for _ in scoring.score_all(settings.results):
        pass
    worst_case.write_worst_cases(settings.results)
    render_site(settings.results, settings.out, running=running, **settings.content)
