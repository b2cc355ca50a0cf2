"""A place for one job at a time: a fork server inside a sandbox, and the folders of its job."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmark.errors import UserError
from benchmark.execution import events, sandbox
from benchmark.execution.engines.engine import Progress
from benchmark.execution.engines.template import ForkedServer, ServerTemplate
from benchmark.execution.isolation import JobDirectory
from benchmark.execution.jobs import Assignment, DescribeJob, Job, Outcome
from benchmark.ownership import claim_folder, release_folder, remove_tree
from benchmark.status import Status

GRACE_SECONDS = 15.0
"""How long the harness waits beyond a job's own limit before it ends the whole slot."""
START_SECONDS = 180.0
LEAST_SPACE = 1 << 20
"""Bytes without which no job can be blamed for what it could not write."""


class WorkerLost(Exception):
    """The fork server itself is gone or does not answer."""


class Slot:
    """One fork server, and the folders of the job that it runs."""

    def __init__(
        self,
        device: str,
        threads: int,
        progress: Progress,
        base: Path,
        hidden: Sequence[Path] = (),
        template: ServerTemplate | None = None,
    ) -> None:
        self.device, self.threads, self.progress = device, threads, progress
        self.template = template
        """What servers are forked from, where that is possible."""
        self.hidden = hidden
        self.base = claim_folder(base)
        self.home = self.base / "slot"
        """What the server sees of it; what jobs made is kept beside it."""
        self.process: subprocess.Popen[bytes] | ForkedServer | None = None
        self._cold = False
        self._buffer = b""
        self._jobs = 0

    def start(self, warm: bool = False) -> None:
        """Start the server and wait until it has imported torch and, `warm`, opened models."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        limits = sandbox.describe_limits(self.home, self.hidden)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long-lived as the server)
        forked = (
            self.template.fork(self.home, self._errors.fileno(), warm) if self.template else None
        )
        self._cold = forked is not None and not forked.warm
        self.process = forked or subprocess.Popen(
            sandbox.command(["benchmark.execution.forkserver"], limits),
            env=sandbox.environment(self.threads, self.device, self.home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd="/",
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._send(json.dumps(vars(limits)))
            self._expect("ready", time.monotonic() + START_SECONDS)
        except (WorkerLost, OSError) as error:
            self.stop()
            raise UserError(
                f"A worker could not start in the sandbox {sandbox.sandbox_kind()}: {error}; "
                "`leakboard doctor` says what this machine offers."
            ) from error

    def run(self, job: Job) -> Outcome:
        """Give one job to the server; a lost server is one failed job, not a lost run."""
        deadline = float("inf")
        said: list[events.Event] = []
        self._jobs += 1
        folder = JobDirectory(self.home / f"{self._jobs}")
        lost = False
        try:
            warm = not isinstance(job.work, DescribeJob)
            if warm and self._cold:  # a warm one is forked in milliseconds
                self.stop()
            if self.process is None:
                self.start(warm)
            self._place(job, folder)
            self._send(self._message(job, folder).model_dump_json())
            self._expect("started", time.monotonic() + START_SECONDS)
            deadline = time.monotonic() + job.time_limit + GRACE_SECONDS
            verdict = self._follow(job, said, deadline)
        except (WorkerLost, OSError) as error:
            verdict = {"status": "error", "reason": f"the worker was lost: {error}", "log": ""}
            lost = time.monotonic() < deadline
            if not lost:
                verdict |= {
                    "status": "timeout",
                    "reason": f"stopped after {job.time_limit:g} s",
                }
            self.stop()
        made = self._harvest(folder, said)
        status = Status(verdict["status"])
        if status is not Status.OK or any(isinstance(event, events.Failed) for event in said):
            _need_space(self.base)
        reason, log = verdict["reason"], verdict["log"]
        return Outcome(job, status, reason, said, log, made, self.device, lost)

    def _harvest(self, folder: JobDirectory, said: list[events.Event]) -> Path:
        """Copy what the job made, and remove its folders before the next job starts.

        A copy carries the bytes alone: no times, modes or attributes that a later job could read.
        """
        target = Path(tempfile.mkdtemp(dir=self.base, prefix="made-"))
        try:
            folder.outbox.chmod(0o700)
            for path in folder.outbox.iterdir():
                if path.is_file() and not path.is_symlink():
                    shutil.copyfile(path, target / path.name)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # half a file is none
                reason = "No space left in the cache for the files that it made"
                said[:] = [events.Failed(status=Status.ERROR, reason=reason)]
        remove_tree(folder.path)
        return target

    def _place(self, job: Job, folder: JobDirectory) -> None:
        """Put what the job may see, and nothing else, into fresh folders."""
        folder.make()
        for name, source in job.files.items():
            target = folder.inbox / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=_link_or_copy)
            else:
                _link_or_copy(source, target)

    def _message(self, job: Job, folder: JobDirectory) -> Assignment:
        return Assignment(
            work=job.work,
            inbox=folder.inbox,
            outbox=folder.outbox,
            device=self.device,
            threads=self.threads,
            time_limit=job.time_limit,
            memory_limit_mb=job.memory_limit_mb,
        )

    def _follow(self, job: Job, said: list[events.Event], deadline: float) -> dict[str, str]:
        """Collect what the worker says until the server reports its end and has cleaned up."""
        verdict: dict[str, str] = {}
        while True:
            event = self._next(deadline)
            if event["event"] == "said":
                self._receive(job, said, event["line"])
            elif event["event"] == "exit":
                verdict = event
            elif event["event"] == "clean":
                return verdict

    def _receive(self, job: Job, said: list[events.Event], text: str) -> None:
        """Keep what the worker said; how far it is goes straight to the display."""
        event = events.parse_event(text)
        if isinstance(event, events.Progress):
            self.progress(job, event)
        else:
            said.append(event)

    def _expect(self, name: str, deadline: float) -> None:
        while self._next(deadline)["event"] != name:
            pass

    def _send(self, message: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(message.encode() + b"\n")
        self.process.stdin.flush()

    def _next(self, deadline: float) -> dict[str, str]:
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
        event: dict[str, str] = json.loads(line)
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
        if process.poll() is None:  # else its number may be another's by now
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
        release_folder(self.base)


def _need_space(folder: Path) -> None:
    """What fails on a full disk is nobody's fault but the disk's."""
    if shutil.disk_usage(folder).free < LEAST_SPACE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _link_or_copy(source: str | Path, target: str | Path) -> None:
    """A hard link costs nothing; across file systems it has to be a copy."""
    real = os.path.realpath(source)
    try:
        os.link(real, target)
    except OSError:
        shutil.copyfile(real, target)
