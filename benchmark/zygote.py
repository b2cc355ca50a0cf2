"""A fork server inside the fence: imports torch once, then starts a worker in milliseconds.

It reads one JSON job a line on standard input and writes JSON events on standard output. Each job
runs in a forked child with a pipe of its own, so a submission can neither forge the server's
events nor write into the next job's. When the child ends, everything it left behind is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmark.sandbox import BUBBLEWRAP, Fence

DUMPABLE, CHILD_SUBREAPER = 4, 36
MAX_LINE = 256 * 2**20
LOG_TAIL = 2000
MEMORY_LOOK_SECONDS = 0.25


class Zygote:
    """Serves jobs one after another until standard input closes."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            libc.prctl(DUMPABLE, 0, 0, 0, 0)  # no child may trace the server or read its memory
            libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)  # daemons of a child come back to us

    def say(self, **event: Any) -> None:
        self.output.write(json.dumps(event) + "\n")
        self.output.flush()

    def serve(self) -> None:
        self.say(event="ready")
        for line in sys.stdin:
            job = json.loads(line)
            self.run(job)
            self.clean_up()
            self.say(event="clean")

    def run(self, job: dict[str, Any]) -> None:
        """Fork a worker for one job, relay what it says and see how it ends."""
        scratch = Path(self.fence.scratch) / "job"
        scratch.mkdir(parents=True, exist_ok=True)
        log = scratch.parent / "log"
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _become_worker(job, writer, scratch, log)
        os.close(writer)
        verdict = self._watch(child, reader, job)
        os.close(reader)
        tail = log.read_text(errors="replace")[-LOG_TAIL:] if log.exists() else ""
        self.say(event="exit", log=tail, **verdict)

    def _watch(self, child: int, reader: int, job: dict[str, Any]) -> dict[str, Any]:
        """Relay lines until the child is gone or has broken a limit."""
        deadline = time.monotonic() + float(job["time_limit"])
        next_look = time.monotonic()
        buffer, ended, status = b"", False, 0
        while True:
            ready, _, _ = select.select([reader], [], [], 0.02)
            chunk = os.read(reader, 1 << 20) if ready else None
            buffer = self._relay(buffer + chunk) if chunk else buffer
            if not ended:
                done, status = os.waitpid(child, os.WNOHANG)
                ended = bool(done)
            elif not chunk:
                return _verdict(status)
            if time.monotonic() > deadline:
                return self._end(child, "timeout", f"stopped after {job['time_limit']:g} s")
            if time.monotonic() > next_look:
                next_look = time.monotonic() + MEMORY_LOOK_SECONDS
                used, limit = _resident_mb(child), float(job["memory_limit_mb"])
                if used > limit:
                    return self._end(child, "out-of-memory", f"took {used:.0f} of {limit:.0f} MiB")
            if len(buffer) > MAX_LINE:
                return self._end(child, "invalid", "returned more than 256 MiB for one snapshot")

    def _relay(self, data: bytes) -> bytes:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self.say(event="said", line=line.decode("utf-8", errors="replace"))
        return rest

    def _end(self, child: int, status: str, reason: str) -> dict[str, Any]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        return {"status": status, "reason": reason}

    def clean_up(self) -> None:
        """No process and no file of a job outlives it, so none can carry news to the next."""
        if self.fence.kind == BUBBLEWRAP:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # own process namespace: spares us and its init
        else:
            _kill_descendants()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        shared = ["/dev/shm"] if self.fence.kind == BUBBLEWRAP else []
        for folder in (self.fence.scratch, *shared):  # nothing else can be written
            for path in Path(folder).iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if self.fence.kind == BUBBLEWRAP:
            _remove_shared_memory()


def _become_worker(job: dict[str, Any], writer: int, scratch: Path, log: Path) -> None:
    """Never returns: the forked child does the job and exits."""
    code = 1
    try:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(DUMPABLE, 1, 0, 0, 0)
        handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        empty = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((empty, 0), (handle, 1), (handle, 2)):
            os.dup2(old, new)
        _close_other_files(keep={0, 1, 2, writer})
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))  # no queues to leave notes in
        os.chdir(scratch)
        os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
        from benchmark import worker

        code = worker.main(job, os.fdopen(writer, "w", encoding="utf-8"))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _close_other_files(keep: set[int]) -> None:
    """The server's own channel is not the child's to write to."""
    for name in os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else range(3, 64):
        if int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _verdict(status: int) -> dict[str, Any]:
    """How a child that ended by itself ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return {"status": "out-of-memory", "reason": "killed by the system, short of memory"}
        return {"status": "error", "reason": f"crashed with {signal.Signals(number).name}"}
    code = os.WEXITSTATUS(status)
    if code:
        return {"status": "error", "reason": f"the process ended with exit code {code}"}
    return {"status": "ok", "reason": ""}


def _resident_mb(pid: int) -> float:
    """Resident memory of the job's whole session, in MiB."""
    import psutil

    total = 0
    try:
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    except psutil.Error:
        return 0.0
    return total / 2**20


def _remove_shared_memory() -> None:
    """System V objects outlive their makers; these are of our own namespace."""
    libc = ctypes.CDLL(None)
    for kind, remove in (("shm", libc.shmctl), ("msg", libc.msgctl)):
        for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
            remove(int(line.split()[1]), 0, None)
    for line in Path("/proc/sysvipc/sem").read_text().splitlines()[1:]:
        libc.semctl(int(line.split()[1]), 0, 0)


def _kill_descendants() -> None:
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def main() -> None:
    """Close the fence, import what every job needs, serve."""
    fence = Fence(**json.loads(sys.stdin.readline()))
    Path(fence.scratch).mkdir(parents=True, exist_ok=True)
    fence.close()
    import psutil  # noqa: F401 (imported once, for all children)
    import torch  # noqa: F401
    import transformers  # noqa: F401

    from benchmark import worker

    worker.warm_up()
    Zygote(fence).serve()


if __name__ == "__main__":
    main()
