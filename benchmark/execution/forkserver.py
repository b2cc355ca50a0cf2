"""A fork server: imports torch once, then starts a worker for a job in milliseconds.

It reads one JSON job a line on standard input and writes JSON events on standard output. Each job
runs in processes of its own (`isolation`) with a pipe of its own, so a submission can neither forge
the server's events nor write into the next job's. No foreign code runs in the server itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmark.execution import namespaces
from benchmark.execution.isolation import SIGNALED, Isolation, JobDirectory, Pipes
from benchmark.execution.jobs import Assignment, DescribeJob
from benchmark.execution.sandbox import BUBBLEWRAP, Limits

CHILD_SUBREAPER = 36
MAX_LINE = 32 * 2**20
"""Bytes of one event: twice what the longest recovery takes that is accepted."""
MAX_SAID = 64 * 2**20
"""Bytes of all events of a job, since the harness keeps them until the job has ended."""
MOST_EVENTS = 20_000
PROGRESS = b'{"event":"progress"'
LOG_TAIL = 2000
FIRST_LOOK_SECONDS, MEMORY_LOOK_SECONDS = 0.02, 0.25
"""Between looks at the memory of a job, at its start and later: short jobs are seen, too."""
CLEAN_UP_SECONDS = 30.0
"""How long the server waits for killed processes to be gone; the kernel takes milliseconds."""
OUT_OF_MEMORY = {"status": "out-of-memory", "reason": "killed by the system, short of memory"}

Verdict = dict[str, str]
"""How a job ended: its status and the reason."""


class ForkServer:
    """Serves jobs one after another until standard input closes."""

    def __init__(self, isolation: Isolation, warm: bool = False) -> None:
        self.isolation = isolation
        self.warm = warm
        self.output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        if sys.platform == "linux":
            namespaces.set_traceable(False)
            libc = ctypes.CDLL(None)
            libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)  # daemons of a child come back to us

    def emit(self, **event: str) -> None:
        self.output.write(json.dumps(event) + "\n")
        self.output.flush()

    def serve(self) -> None:
        self.emit(event="ready")
        for line in sys.stdin:
            self.run(Assignment.model_validate_json(line, strict=True))
            self.emit(event="clean")

    def run(self, job: Assignment) -> None:
        """Fork a worker for one job, relay its events and see how it ends."""
        self._warm_up(job)
        self.emit(event="started")
        folder = JobDirectory(job.inbox.parent)
        reader, writer = os.pipe()
        ours, theirs = socket.socketpair()
        killed_before = _killed_for_memory()

        def work() -> int:
            from benchmark.execution import worker

            return worker.main(job, os.fdopen(writer, "w", encoding="utf-8"))

        pipes = Pipes(writer, theirs)
        keeper = self.isolation.fork(folder, job.memory_limit_mb, pipes, work)
        os.close(writer)
        theirs.close()
        gauge = MemoryGauge(keeper, ours, self.isolation.namespaces)
        with gauge, _end_of(keeper) as end:
            verdict = self._watch(keeper, [reader, *end], gauge, job)
        if verdict is None:
            short = _killed_for_memory() > killed_before
            verdict = OUT_OF_MEMORY if short else {"status": "error", "reason": "killed by SIGKILL"}
        os.close(reader)
        self.clean_up()
        self.emit(event="exit", log=_tail(folder.log), **verdict)

    def _warm_up(self, job: Assignment) -> None:
        """Import what models need before the first job that has one; descriptions do without."""
        if not self.warm and not isinstance(job.work, DescribeJob):
            warm_up()
            self.warm = True

    def _watch(
        self, keeper: int, news: list[int], gauge: MemoryGauge, job: Assignment
    ) -> Verdict | None:
        """Relay lines until the job is over or has broken a limit; None where it was killed.

        `news` are what it says and, where the kernel tells of it, its end.
        """
        reader, *end = news
        deadline = time.monotonic() + job.time_limit
        next_look, pause = time.monotonic(), FIRST_LOOK_SECONDS
        said, ended, status = Said(self.emit), False, 0
        while True:
            ready, _, _ = select.select(news, [], [], pause if end else FIRST_LOOK_SECONDS)
            chunk = os.read(reader, 1 << 20) if reader in ready else None
            said.take(chunk or b"")
            if chunk == b"" and end:
                news = end  # no more words, and its end is still to come
            if not ended:
                done, status = os.waitpid(keeper, os.WNOHANG)
                ended = bool(done)
            elif not chunk:
                return _verdict(status)
            if time.monotonic() > deadline:
                return self._end(keeper, "timeout", f"stopped after {job.time_limit:g} s")
            if time.monotonic() > next_look:
                next_look, pause = time.monotonic() + pause, min(2 * pause, MEMORY_LOOK_SECONDS)
                used, limit = gauge.used_mb(), job.memory_limit_mb
                if used > limit:
                    return self._end(keeper, "out-of-memory", f"took {used:.0f} of {limit:.0f} MiB")
            if excess := said.excess():
                return self._end(keeper, "invalid", excess)

    def _end(self, keeper: int, status: str, reason: str) -> Verdict:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(keeper, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(keeper, 0)
        return {"status": status, "reason": reason}

    def clean_up(self) -> None:
        """End every process of a job and see it gone: none carries news to the next job.

        Whatever has lost its parent is a child of this server, so that no child means no process.
        """
        patience = time.monotonic() + CLEAN_UP_SECONDS
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < patience:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
                if self.isolation.limits.kind == BUBBLEWRAP:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(-1, signal.SIGKILL)  # own process namespace: spares us and its init
                else:
                    _kill_descendants()
                time.sleep(0.002)


class Said:
    """Passes on what a job says, line by line, and counts it: the harness keeps it all."""

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit, self._rest = emit, bytearray()
        self._bytes = self._events = 0

    def take(self, data: bytes) -> None:
        """Pass on the lines that are complete."""
        self._bytes += len(data)
        self._rest += data
        if b"\n" not in data:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._events += not line.startswith(PROGRESS)  # which nobody keeps
            self._emit(event="said", line=line.decode("utf-8", errors="replace"))

    def excess(self) -> str:
        """Why it is too much, if it is."""
        if self._events > MOST_EVENTS:
            return f"said more than {MOST_EVENTS:,} things"
        if self._bytes > MAX_SAID:
            return f"returned more than {MAX_SAID >> 20} MiB in all"
        most = f"{MAX_LINE >> 20} MiB for one snapshot"
        return f"returned more than {most}" if len(self._rest) > MAX_LINE else ""


class MemoryGauge:
    """Measures what a job takes: its processes, and its files that lie in memory."""

    def __init__(self, keeper: int, mounts: socket.socket, namespaces: bool) -> None:
        self.keeper, self.namespaces = keeper, namespaces
        self._mounts, self._handles = mounts, list[int]()
        mounts.setblocking(False)

    def __enter__(self) -> MemoryGauge:
        return self

    def __exit__(self, *error: object) -> None:
        self._mounts.close()
        for handle in self._handles:
            os.close(handle)

    def used_mb(self) -> float:
        """MiB that the job takes now."""
        return (self._resident() + self._in_files()) / 2**20

    def _resident(self) -> int:
        """Of every process below the server: one that has left its parents is still there."""
        import psutil

        total = 0
        for parent, number in _descendants():
            waits = self.keeper in (parent, number)  # keeper and root
            if not (waits and self.namespaces):
                with contextlib.suppress(psutil.Error):
                    total += psutil.Process(number).memory_info().rss
        return total

    def _in_files(self) -> int:
        """Of scratch and shared memory, mapped by a process or not."""
        if not self._handles:
            with contextlib.suppress(OSError):
                self._handles = socket.recv_fds(self._mounts, 1, 4)[1]
        states = map(os.fstatvfs, self._handles)
        return sum((state.f_blocks - state.f_bfree) * state.f_frsize for state in states)


@contextlib.contextmanager
def _end_of(process: int) -> Iterator[list[int]]:
    """What becomes readable when a child ends; nothing where the kernel has no such handle."""
    handles = []
    with contextlib.suppress(OSError, AttributeError):
        handles.append(os.pidfd_open(process))
    try:
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def _descendants() -> Iterator[tuple[int, int]]:
    """Every process below this one, behind its parent.

    The kernel lists the children of each thread; where it keeps no such lists, all processes of the
    machine are looked at, which takes ten times as long.
    """
    import psutil

    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        for member in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                yield member.ppid(), member.pid
        return
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has just ended
                children = [int(number) for number in listed.read_text().split()]
                yield from ((parent, child) for child in children)
                todo += children


def _verdict(status: int) -> Verdict | None:
    """How a job that ended by itself ended; None where something killed it."""
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else SIGNALED + os.WTERMSIG(status)
    if code == SIGNALED + signal.SIGKILL:
        return None
    if code > SIGNALED:
        with contextlib.suppress(ValueError):
            name = signal.Signals(code - SIGNALED).name
            return {"status": "error", "reason": f"crashed with {name}"}
    if code:
        return {"status": "error", "reason": f"the process ended with exit code {code}"}
    return {"status": "ok", "reason": ""}


def _killed_for_memory() -> int:
    """How many processes the kernel has ended because memory was short."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _tail(log: Path) -> str:
    """The last words of a job's output."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 4 * LOG_TAIL))
            return stream.read().decode(errors="replace")[-LOG_TAIL:]
    except OSError:
        return ""


def _kill_descendants() -> None:
    for _, process in _descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def read_limits() -> Limits:
    """The first line that a server is told."""
    return Limits(**json.loads(sys.stdin.readline()))


def import_libraries() -> None:
    """Import what every job needs, once for all that are forked."""
    import psutil  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401

    from benchmark.execution import accelerator, worker  # noqa: F401

    accelerator.compute_exactly()


def warm_up() -> None:
    """Do what most jobs begin with."""
    from benchmark.execution import worker

    worker.warm_up()


def serve(limits: Limits, has_namespaces: bool, warm: bool = False) -> None:
    """Serve jobs within these limits until standard input closes."""
    ForkServer(Isolation(limits, has_namespaces), warm).serve()


def main() -> None:
    """Start by itself: import what every job needs, serve."""
    limits = read_limits()
    if limits.kind != BUBBLEWRAP:  # which sees to that itself
        namespaces.die_with_parent()
        if os.getppid() != limits.harness:
            return
    import_libraries()
    serve(limits, namespaces.available())


if __name__ == "__main__":
    main()
