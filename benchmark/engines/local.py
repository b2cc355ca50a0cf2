"""Local processes: each slot keeps one fork server inside a fence and feeds it jobs."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from benchmark import protocol, sandbox
from benchmark.errors import UserError
from benchmark.jobs import Job, Outcome
from benchmark.paths import cache_directory

GRACE_SECONDS = 15.0
"""How long the harness waits beyond a job's own limit before it ends the whole slot."""
START_SECONDS = 180.0


Progress = Callable[[Job, dict[str, Any]], None]
"""Told, from any thread, how far a job is."""


class WorkerLost(Exception):
    """The fork server itself is gone or silent."""


class Slot:
    """One fork server with an inbox that it may read and an outbox that it may write."""

    def __init__(self, device: str, threads: int, progress: Progress) -> None:
        self.device, self.threads, self.progress = device, threads, progress
        base = cache_directory() / "mail"
        base.mkdir(parents=True, exist_ok=True)
        remove_orphans(base)
        self.home = Path(tempfile.mkdtemp(dir=base, prefix=f"{os.getpid()}-"))
        self.inbox, self.outbox = self.home / "inbox", self.home / "outbox"
        self.process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def start(self) -> None:
        """Start the server and wait until it has imported torch."""
        for folder in (self.inbox, self.outbox, self.home / "scratch"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        fenced = sandbox.fence() == sandbox.BUBBLEWRAP
        scratch = sandbox.SCRATCH if fenced else self.home / "scratch"
        limits = sandbox.describe_fence(self.inbox, self.outbox, scratch)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long-lived as the server)
        self.process = subprocess.Popen(
            sandbox.command(["benchmark.zygote"], self.inbox, self.outbox),
            env=sandbox.environment(self.threads, self.device, scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd="/",
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._send(vars(limits))
            self._expect("ready", time.monotonic() + START_SECONDS)
        except (WorkerLost, OSError) as error:
            raise UserError(
                f"A worker could not start behind the fence {sandbox.fence()}: {error}; "
                "`leakboard doctor` says what this machine offers."
            ) from error

    def run(self, job: Job) -> Outcome:
        """Give one job to the server; a lost server is one failed job, not a lost run."""
        deadline = time.monotonic() + job.time_limit + GRACE_SECONDS
        said: list[dict[str, Any]] = []
        try:
            if self.process is None:
                self.start()
                deadline = time.monotonic() + job.time_limit + GRACE_SECONDS
            self._place(job)
            self._send(self._message(job))
            verdict = self._follow(job, said, deadline)
        except (WorkerLost, OSError) as error:
            verdict = {"status": "error", "reason": f"the worker was lost: {error}", "log": ""}
            if time.monotonic() >= deadline:
                verdict |= {"status": "timeout", "reason": f"stopped after {job.time_limit:g} s"}
            self.stop()
        shutil.rmtree(self.inbox / "job", ignore_errors=True)
        made = self._harvest()
        return Outcome(
            job, verdict["status"], verdict["reason"], said, verdict["log"], made, self.device
        )

    def _harvest(self) -> Path:
        """Take what the job made out of the worker's reach, before the next job starts."""
        target = Path(tempfile.mkdtemp(dir=self.home, prefix="made-"))
        for path in self.outbox.iterdir() if self.outbox.exists() else ():
            if path.is_file() and not path.is_symlink():
                path.rename(target / path.name)
        return target

    def _place(self, job: Job) -> None:
        """Put what the job may see, and nothing else, into the inbox."""
        for folder in (self.inbox, self.outbox):
            for old in folder.iterdir():
                shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()
        for name, source in job.files.items():
            target = self.inbox / "job" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=_link_or_copy)
            else:
                _link_or_copy(source, target)

    def _message(self, job: Job) -> dict[str, Any]:
        limits = {"time_limit": job.time_limit, "memory_limit_mb": job.memory_limit_mb}
        places = {"inbox": str(self.inbox / "job"), "outbox": str(self.outbox)}
        own = {"kind": job.kind, "threads": self.threads, "device": self.device}
        return {**job.payload, **limits, **places, **own}

    def _follow(self, job: Job, said: list[dict[str, Any]], deadline: float) -> dict[str, Any]:
        """Collect what the worker says until the server reports its end and has cleaned up."""
        verdict: dict[str, Any] = {}
        while True:
            event = self._next(deadline)
            if event["event"] == "said":
                self._hear(job, said, event["line"])
            elif event["event"] == "exit":
                verdict = event
            elif event["event"] == "clean":
                return verdict

    def _hear(self, job: Job, said: list[dict[str, Any]], text: str) -> None:
        """Keep what the worker said; how far it is goes straight to the display."""
        line = protocol.hear(text)
        if line["event"] == "progress":
            self.progress(job, line)
        else:
            said.append(line)

    def _expect(self, name: str, deadline: float) -> None:
        while self._next(deadline)["event"] != name:
            pass

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _next(self, deadline: float) -> dict[str, Any]:
        """The server's next event."""
        assert self.process is not None
        assert self.process.stdout is not None
        handle = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise WorkerLost("it did not answer in time")
            chunk = os.read(handle, 1 << 20)
            if not chunk:
                raise WorkerLost(self._last_words() or "it ended by itself")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def stop(self) -> None:
        """End the server and everything below it; safe to call from two threads at once."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(psutil.Error):
            for member in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    member.kill()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close() if stream else None

    def close(self) -> None:
        """End the server and remove its folders."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


class LocalEngine:
    """As many slots as jobs may run at once, each in a thread of its own."""

    def __init__(self, devices: Sequence[str], threads: int) -> None:
        self.devices, self.threads = list(devices), threads
        self.progress: Progress = lambda job, event: None
        self._todo: deque[Job] = deque()
        self._news: queue.Queue[Outcome | BaseException | None] = queue.Queue()
        self._change = threading.Condition()
        self._slots: list[Slot] = []
        self._closing = False

    def __enter__(self) -> LocalEngine:
        self._threads = [
            threading.Thread(target=self._serve, args=(device,), daemon=True)
            for device in self.devices
        ]
        for thread in self._threads:
            thread.start()
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
            for slot in list(self._slots):
                slot.stop()
        for thread in self._threads:
            thread.join(timeout=30)

    def run(self, jobs: Iterable[Job], finished: Callable[[Outcome], Iterable[Job]]) -> None:
        """Run jobs; `finished` is told of each end, in this thread, and may ask for more."""
        pending = self._add(jobs)
        while pending:
            news = self._news.get()
            if isinstance(news, BaseException):
                raise news
            pending -= 1
            pending += self._add(finished(news), first=True) if news else 0

    def one(self, job: Job) -> Outcome:
        """Run a single job and wait for it."""
        found: list[Outcome] = []

        def keep(outcome: Outcome) -> list[Job]:
            found.append(outcome)
            return []

        self.run([job], keep)
        return found[0]

    def _add(self, jobs: Iterable[Job], first: bool = False) -> int:
        new = list(jobs)
        with self._change:
            self._todo.extendleft(reversed(new)) if first else self._todo.extend(new)
            self._change.notify_all()
        return len(new)

    def _take(self) -> Job | None:
        with self._change:
            while not self._todo and not self._closing:
                self._change.wait()
            return self._todo.popleft() if self._todo else None

    def _serve(self, device: str) -> None:
        """Updates and recoveries never share a server: what a defense saw, no attack may find."""
        slots: dict[bool, Slot] = {}
        try:
            while (job := self._take()) is not None:
                private = job.kind in ("update", "train", "evaluate")
                if private not in slots:
                    slots[private] = Slot(device, self.threads, self._pass_on)
                    self._slots.append(slots[private])
                self._news.put(slots[private].run(job))
        except BaseException as error:
            self._news.put(error)
        finally:
            for slot in slots.values():
                slot.close()

    def _pass_on(self, job: Job, event: dict[str, Any]) -> None:
        self.progress(job, event)


def remove_orphans(base: Path) -> None:
    """Mail folders of runs that were killed before they could tidy up."""
    for folder in base.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _link_or_copy(source: str | Path, target: str | Path) -> None:
    """A hard link costs nothing; across file systems it has to be a copy."""
    real = os.path.realpath(source)
    try:
        os.link(real, target)
    except OSError:
        shutil.copyfile(real, target)
