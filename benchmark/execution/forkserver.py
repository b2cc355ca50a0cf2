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
import sys
import time
from pathlib import Path

from benchmark.execution import namespaces
from benchmark.execution.isolation import SIGNALED, Isolation, JobDirectory
from benchmark.execution.jobs import Assignment
from benchmark.execution.sandbox import BUBBLEWRAP, Limits

DUMPABLE, CHILD_SUBREAPER = 4, 36
MAX_LINE = 256 * 2**20
LOG_TAIL = 2000
MEMORY_LOOK_SECONDS = 0.25
OUT_OF_MEMORY = {"status": "out-of-memory", "reason": "killed by the system, short of memory"}

Verdict = dict[str, str]
"""How a job ended: its status and the reason."""


class ForkServer:
    """Serves jobs one after another until standard input closes."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self.output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            libc.prctl(DUMPABLE, 0, 0, 0, 0)  # no child may trace the server or read its memory
            libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)  # daemons of a child come back to us

    def emit(self, **event: str) -> None:
        self.output.write(json.dumps(event) + "\n")
        self.output.flush()

    def serve(self) -> None:
        self.emit(event="ready")
        for line in sys.stdin:
            self.run(Assignment.model_validate_json(line, strict=True))
            self.clean_up()
            self.emit(event="clean")

    def run(self, job: Assignment) -> None:
        """Fork a worker for one job, relay its events and see how it ends."""
        folder = JobDirectory(job.inbox.parent)
        reader, writer = os.pipe()
        killed_before = _killed_for_memory()

        def work() -> int:
            from benchmark.execution import worker

            return worker.main(job, os.fdopen(writer, "w", encoding="utf-8"))

        keeper = self.isolation.fork(folder, job.memory_limit_mb, writer, work)
        os.close(writer)
        verdict = self._watch(keeper, reader, job)
        if verdict is None:
            short = _killed_for_memory() > killed_before
            verdict = OUT_OF_MEMORY if short else {"status": "error", "reason": "killed by SIGKILL"}
        os.close(reader)
        self.emit(event="exit", log=_tail(folder.log), **verdict)

    def _watch(self, keeper: int, reader: int, job: Assignment) -> Verdict | None:
        """Relay lines until the job is over or has broken a limit; None where it was killed."""
        deadline = time.monotonic() + job.time_limit
        next_look = time.monotonic()
        buffer, ended, status = b"", False, 0
        while True:
            ready, _, _ = select.select([reader], [], [], 0.02)
            chunk = os.read(reader, 1 << 20) if ready else None
            buffer = self._relay(buffer + chunk) if chunk else buffer
            if not ended:
                done, status = os.waitpid(keeper, os.WNOHANG)
                ended = bool(done)
            elif not chunk:
                return _verdict(status)
            if time.monotonic() > deadline:
                return self._end(keeper, "timeout", f"stopped after {job.time_limit:g} s")
            if time.monotonic() > next_look:
                next_look = time.monotonic() + MEMORY_LOOK_SECONDS
                used, limit = self._resident_mb(keeper), job.memory_limit_mb
                if used > limit:
                    return self._end(keeper, "out-of-memory", f"took {used:.0f} of {limit:.0f} MiB")
            if len(buffer) > MAX_LINE:
                return self._end(keeper, "invalid", "returned more than 256 MiB for one snapshot")

    def _relay(self, data: bytes) -> bytes:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self.emit(event="said", line=line.decode("utf-8", errors="replace"))
        return rest

    def _end(self, keeper: int, status: str, reason: str) -> Verdict:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(keeper, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(keeper, 0)
        return {"status": status, "reason": reason}

    def _resident_mb(self, keeper: int) -> float:
        """Resident memory of everything that the job runs, in MiB."""
        import psutil

        total = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(keeper)
            members = process.children(recursive=True)
            if self.isolation.namespaces:  # keeper and root only wait
                members = [m for m in members if m.ppid() != keeper]
            else:
                members.append(process)
            for member in members:
                with contextlib.suppress(psutil.Error):
                    total += member.memory_info().rss
        return total / 2**20

    def clean_up(self) -> None:
        """No process of a job outlives it, so none can carry news to the next."""
        if self.isolation.limits.kind == BUBBLEWRAP:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # own process namespace: spares us and its init
        else:
            _kill_descendants()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


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
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def main() -> None:
    """Import what every job needs, serve."""
    limits = Limits(**json.loads(sys.stdin.readline()))
    if limits.kind != BUBBLEWRAP:  # which sees to that itself
        namespaces.die_with_parent()
        if os.getppid() != limits.harness:
            return
    import psutil  # noqa: F401 (imported once, for all children)
    import torch  # noqa: F401
    import transformers  # noqa: F401

    from benchmark.execution import worker

    worker.warm_up()
    ForkServer(Isolation(limits, namespaces.available())).serve()


if __name__ == "__main__":
    main()
