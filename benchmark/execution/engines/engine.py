"""What runs jobs, wherever it does: a queue that threads serve, and the order in which it is."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmark.execution import events
from benchmark.execution.jobs import Job, Outcome
from benchmark.execution.machine import handling_outcome_of

Progress = Callable[[Job, events.Progress], None]
"""Told, from any thread, how far a job is."""
Choose = Callable[[Sequence[Job]], int | None]
"""Which of the waiting jobs comes next: its place among them, or None for none of them."""


class Engine(ABC):
    """Runs jobs, several at once, each in a slot that a thread serves."""

    retries = 0
    """How often a job whose worker was lost is tried again."""
    longest_first = False
    """Whether long cells come first, so that none is left over at the end, or as the plan says."""

    def __init__(self, threads: int, hidden: Sequence[Path] = ()) -> None:
        self.threads = threads
        self.hidden = list(hidden)
        """Folders of the user's, such as results, that no submission may read."""
        self.progress: Progress = lambda job, event: None
        self._todo: list[Job] = []
        self._news: queue.Queue[Outcome | BaseException] = queue.Queue()
        self._change = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closing = False

    @property
    @abstractmethod
    def devices(self) -> Sequence[str]:
        """The device of each job that may run at once."""

    @abstractmethod
    def memory_mb(self) -> float:
        """What each of the jobs that run at once may take, where nobody says."""

    @abstractmethod
    def _open(self) -> None:
        """Start the threads that serve the queue."""

    @abstractmethod
    def _abort(self) -> None:
        """End the jobs that are running."""

    def _release(self) -> None:
        """Give back what the engine holds, once its threads have ended."""
        self._threads.clear()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._change:
            self._closing = True
            self._todo.clear()
            self._change.notify_all()
        if kind is not None:
            self._abort()
        for thread in self._threads:
            thread.join(timeout=30)
        self._release()

    # ----------------------------------------------------------------------------- for the harness

    def run(self, jobs: Iterable[Job], finished: Callable[[Outcome], Iterable[Job]]) -> None:
        """Run jobs; `finished` is told of each end, in this thread, and may ask for more.

        Jobs are asked for as they are needed: preparing one may take longer than running it.
        """
        waiting, lost = iter(jobs), Counter[int]()
        pending = self._add(islice(waiting, self._ahead()))
        while pending:
            news = self._news.get()
            if isinstance(news, BaseException):
                raise news
            if news.lost and lost[id(news.job)] < self.retries:
                lost[id(news.job)] += 1
                self._add([news.job], first=True)
                continue
            pending -= 1
            with handling_outcome_of(news.machine):
                pending += self._add(finished(_told(news, lost.pop(id(news.job), 0))), first=True)
            pending += self._add(islice(waiting, max(0, self._ahead() - len(self._todo))))

    def one(self, job: Job) -> Outcome:
        """Run a single job and wait for it."""
        found: list[Outcome] = []

        def keep(outcome: Outcome) -> list[Job]:
            found.append(outcome)
            return []

        self.run([job], keep)
        return found[0]

    def _ahead(self) -> int:
        """How many jobs are prepared before a slot asks for them."""
        return len(self.devices) + 1

    def _add(self, jobs: Iterable[Job], first: bool = False) -> int:
        new = list(jobs)
        with self._change:
            self._todo = [*new, *self._todo] if first else [*self._todo, *new]
            self._change.notify_all()
        return len(new)

    # ----------------------------------------------------------------------------- for the threads

    def _start_thread(self, serve: Callable[[], None]) -> None:
        """Serve the queue in a thread; what it cannot handle ends the run."""

        def guarded() -> None:
            try:
                serve()
            except BaseException as error:
                self._news.put(error)

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _take(self, choose: Choose) -> Job | None:
        """The next job for a slot, once there is one; None when the engine closes."""
        with self._change:
            while not self._closing:
                place = choose(self._todo) if self._todo else None
                if place is not None:
                    return self._todo.pop(place)
                self._change.wait()
            return None

    def _pass_on(self, job: Job, event: events.Progress) -> None:
        self.progress(job, event)


def _told(outcome: Outcome, retried: int) -> Outcome:
    """The outcome, with a word on how often its job was tried where that was more than once."""
    if not (outcome.lost and retried):
        return outcome
    return replace(outcome, reason=f"{outcome.reason} (tried {retried + 1} times)")
