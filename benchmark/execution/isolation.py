"""What a job's process goes through before foreign code is loaded in it.

The fork server forks a *keeper*, which enters fresh namespaces and forks their first process, the
*root*; that lays out the files that the job may see and forks the *worker*, which gives up all
privileges and does the job. When the root ends, the kernel ends whatever the job has started. Where
the kernel refuses namespaces, the keeper is the worker itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmark.execution import audit_hook, cheap_forks, landlock, namespaces, seccomp
from benchmark.execution.sandbox import AUDIT_HOOK, LANDLOCK, Limits

SIGNALED = 128
"""Added to the number of the signal that ended a process."""


Work = Callable[[], int]
"""What a process does; the number is its exit code."""


@dataclass(frozen=True)
class Pipes:
    """How the processes of a job reach the fork server."""

    output: int
    """Where the worker writes its events."""
    mounts: socket.socket
    """Where the root hands over its file systems in memory, so that they can be measured."""

    def send(self, folders: Sequence[Path]) -> None:
        """Hand over file systems, and close this end before foreign code is loaded."""
        handles = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
        socket.send_fds(self.mounts, [b"m"], handles)
        for handle in handles:
            os.close(handle)
        self.mounts.close()


@dataclass(frozen=True)
class JobDirectory:
    """The folders of one job, made for it and removed after it."""

    path: Path

    @property
    def inbox(self) -> Path:
        """What the job is given."""
        return self.path / "in"

    @property
    def outbox(self) -> Path:
        """What the job makes for the harness."""
        return self.path / "out"

    @property
    def scratch(self) -> Path:
        """What the job writes for itself."""
        return self.path / "scratch"

    @property
    def log(self) -> Path:
        """What the job prints."""
        return self.path / "log"

    def make(self) -> None:
        """Create the folders, empty."""
        for folder in (self.inbox, self.outbox, self.scratch):
            folder.mkdir(parents=True)


@dataclass(frozen=True)
class Isolation:
    """How the jobs of one fork server are kept apart."""

    limits: Limits
    namespaces: bool
    """Whether the kernel grants namespaces."""

    def fork(self, job: JobDirectory, memory_mb: float, pipes: Pipes, work: Work) -> int:
        """Start `work` in a process that sees its own job only; returns the keeper's number."""
        cheap_forks.prepare_fork()
        keeper = os.fork()
        if keeper == 0:
            run_and_exit(lambda: self._keep(job, memory_mb, pipes, work))
        return keeper

    def _keep(self, job: JobDirectory, memory_mb: float, pipes: Pipes, work: Work) -> int:
        """Enter fresh namespaces, where there are some, and wait for what runs in them."""
        os.setsid()
        log = os.open(job.log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        empty = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((empty, 0), (log, 1), (log, 2)):
            os.dup2(old, new)
        close_files_except({0, 1, 2, pipes.output, pipes.mounts.fileno()})
        if not self.namespaces:
            pipes.mounts.close()
            namespaces.die_with_parent()
            return self._work(job, work)
        namespaces.enter()
        namespaces.die_with_parent()
        return _code_of_child(lambda: self._root(job, memory_mb, pipes, work), pipes)

    def _root(self, job: JobDirectory, memory_mb: float, pipes: Pipes, work: Work) -> int:
        """The first process of the namespaces: lays out the files and waits for the worker."""
        namespaces.die_with_parent()
        kept = (job.inbox, job.outbox)
        mounts = namespaces.arrange_files(Path(self.limits.home), kept, job.scratch, memory_mb)
        pipes.send(mounts)
        namespaces.mount_processes()
        return _code_of_child(lambda: self._work(job, work), pipes)

    def _work(self, job: JobDirectory, work: Work) -> int:
        """The process that loads foreign code, with nothing left that it could misuse."""
        os.chdir(job.scratch)
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(job.scratch)
        self._restrict(job)
        return work()

    def _restrict(self, job: JobDirectory) -> None:
        """Shut this process in, for good."""
        limits = self.limits
        writable = [str(job.outbox), str(job.scratch)]
        if self.namespaces and namespaces.SHARED_MEMORY.is_dir():
            writable.append(str(namespaces.SHARED_MEMORY))
        if sys.platform == "linux":
            _limit_resources()
            namespaces.drop_privileges()
            namespaces.set_traceable(True)
        readable = [*limits.readable, str(job.inbox), "/proc"]
        readable += ["/sys"] if limits.gpu else []
        if limits.kind == LANDLOCK:
            landlock.restrict(readable, limits.listable, [*writable, *limits.devices])
        if seccomp.available():
            seccomp.restrict(unix_sockets=limits.gpu)
        if limits.kind == AUDIT_HOOK:
            audit_hook.install(readable, limits.listable, [*writable, *limits.devices])


def run_and_exit(work: Work) -> NoReturn:
    """Whatever happens, a forked process ends here and not in its parent's code."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _code_of_child(work: Work, pipes: Pipes) -> int:
    """Exit code of a child that does the work; 128 and its number for a deadly signal."""
    child = os.fork()
    if child == 0:
        run_and_exit(work)
    os.close(pipes.output)
    pipes.mounts.close()
    _, status = os.waitpid(child, 0)
    return SIGNALED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _limit_resources() -> None:
    """No queues to leave notes in, no core files."""
    import resource

    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close_files_except(kept: set[int]) -> None:
    """The server's own channel is not the job's to write to."""
    folder = Path("/proc/self/fd")
    for name in os.listdir(folder) if folder.exists() else map(str, range(3, 64)):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
