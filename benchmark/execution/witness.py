"""Watches what a submission does while it is checked: network, programs, files, and where it fails.

It only tells; keeping a submission from all this is the sandbox's part. Each finding carries the
line of the submission's own code that led there.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import FrameType, TracebackType

from benchmark.execution import audit_hook
from benchmark.execution.events import Notice, Noticed, encodable
from benchmark.execution.observing import Emit
from benchmark.paths import ROOT
from benchmark.spec import Submission, Unsupported

MOST = 20
"""Findings of a job that are told."""
NETWORK = frozenset(
    {
        *("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"),
        *("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"),
    }
)
PROGRAMS = frozenset(
    {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork"}
)
LIBRARIES = ("/usr", "/lib", "/lib64", "/bin", "/opt", "/etc", "/proc", "/sys", "/dev")
"""Where libraries look by themselves."""
METADATA = (".dist-info", ".egg-info")
"""Folders in which libraries look for each other, wherever a package is installed from."""
IMPORTING = "<frozen importlib"


@dataclass
class Witness:
    """Tells what the code in some files or folders does."""

    sources: Sequence[str]
    own: Sequence[str]
    """Folders that were made for the job, which it may write to."""
    emit: Emit
    _told: set[tuple[str, str, int]] = field(default_factory=set)

    def watch(self) -> None:
        """From now on, for as long as the process lives."""
        interpreter = (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())
        readable = (*LIBRARIES, *interpreter, str(ROOT / "benchmark"), str(ROOT / "tasks"))
        blocks = str(ROOT / "submissions")
        self._readable = [*map(os.path.realpath, (*readable, blocks, *self.own, *self.sources))]
        self._writable = [*map(os.path.realpath, (*self.own, "/dev"))]
        audit_hook.WITNESSES.append(self._see)
        sys.addaudithook(self._see)

    # ----------------------------------------------------------------------------------- events

    def _see(self, event: str, arguments: audit_hook.Arguments) -> None:
        if event in NETWORK:
            self._tell_own("network", "uses the network")
        elif event in PROGRAMS:
            self._tell_own("process", "starts another process")
        elif event in audit_hook.PATHS:
            self._see_files(event, arguments)

    def _see_files(self, event: str, arguments: audit_hook.Arguments) -> None:
        if self._caller() is None:
            return
        for given, folder, written in audit_hook.PATHS[event](arguments):
            path = audit_hook.resolved(given, folder)
            if path is None or audit_hook.below(path, self._writable):
                continue
            if written:
                self._tell_own("write", f"writes {path}")
            elif not audit_hook.below(path, self._readable) and not _is_metadata(path):
                self._tell_own("read", f"reads {path}")

    def _tell_own(self, notice: Notice, what: str) -> None:
        """Tell of what the submission's own code does, but not of what an import leads to."""
        if (place := self._caller()) is not None:
            self.tell(notice, what, *place)

    def _caller(self) -> tuple[str, int] | None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(IMPORTING):
                return None
            if audit_hook.below(name, self.sources):
                return name, frame.f_lineno
            frame = frame.f_back
        return None

    # ------------------------------------------------------------------------------- exceptions

    def attend(self, submission: Submission, *methods: str) -> None:
        """Tell of every exception that leaves one of the methods, and go on as if unobserved."""
        for name in methods:
            setattr(submission, name, self._attended(getattr(submission, name)))

    def _attended(self, method: Callable[..., object]) -> Callable[..., object]:
        @wraps(method)
        def call(*arguments: object) -> object:
            try:
                return method(*arguments)
            except Unsupported:
                raise
            except Exception as error:
                self.tell_error(error)
                raise

        return call

    def tell_error(self, error: Exception) -> None:
        """The exception and the last line of the submission on its way; one of mixed devices so."""
        from benchmark.execution.device_double import OtherDevice

        place = self._last(error.__traceback__) or ("", 0)
        if isinstance(error, OtherDevice):
            self.tell("device", str(error), *place)
        else:
            words = str(error).strip().splitlines() or [""]
            self.tell("exception", f"{type(error).__name__}: {words[0]}", *place)

    def _last(self, trace: TracebackType | None) -> tuple[str, int] | None:
        found = None
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            if audit_hook.below(name, self.sources):
                found = name, trace.tb_lineno
            trace = trace.tb_next
        return found

    def tell(self, notice: Notice, what: str, file: str = "", line: int = 0) -> None:
        """Tell once, and not of more than a list can hold."""
        if (notice, file, line) in self._told or len(self._told) >= MOST:
            return
        self._told.add((notice, file, line))
        shown = str(Path(file)) if file else ""
        self.emit(Noticed(notice=notice, file=shown, line=line, what=encodable(what)))


def _is_metadata(path: str) -> bool:
    return os.path.dirname(path).endswith(METADATA)
