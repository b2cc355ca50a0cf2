"""The harness's end of a template: starts it when the first server is asked for, and asks it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmark.execution import sandbox
from benchmark.ownership import claim_folder, release_folder

ANSWER_SECONDS = 180.0
MODULE = "benchmark.execution.template"


def template_works() -> bool:
    """Whether servers can be forked here: bubblewrap starts a program of its own for each."""
    if sys.platform != "linux" or sandbox.sandbox_kind() == sandbox.BUBBLEWRAP:
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


@dataclass
class ForkedServer:
    """A fork server that is not a child of the harness; used like one that `Popen` started."""

    pid: int
    handle: int
    """Names the process even when its number has been given to another one; -1 once it is gone."""
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.handle < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def wait(self) -> None:
        """Return once it has ended."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            select.select([handle], [], [])
            os.close(handle)


class ServerTemplate:
    """A process that has imported torch, from which the fork servers of one device are forked."""

    def __init__(self, device: str, threads: int, base: Path) -> None:
        self.device, self.threads, self.base = device, threads, base
        self.process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._control: socket.socket | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()

    def fork(self, home: Path, errors: int, warm: bool) -> ForkedServer | None:
        """A server with this home that writes its errors there; None where it cannot be had."""
        with self._lock:
            control = self._control or self._start()
            theirs_in, ours_in = os.pipe()
            ours_out, theirs_out = os.pipe()
            try:
                request = json.dumps({"home": str(home), "warm": warm}).encode()
                socket.send_fds(control, [request], [theirs_in, theirs_out, errors])
                answer, handles, _, _ = socket.recv_fds(control, 1024, 1)
                number = json.loads(answer or b"{}").get("pid")
            except OSError:
                number, handles = None, []
            os.close(theirs_in)
            os.close(theirs_out)
            if number is None or not handles:
                os.close(ours_in)
                os.close(ours_out)
                self._stop()
                return None
            return ForkedServer(number, handles[0], _writer(ours_in), _reader(ours_out))

    def _start(self) -> socket.socket:
        self._folder = claim_folder(self.base)
        home = self._folder / "template"
        home.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_SECONDS)
        started = threading.Event()

        def hold() -> None:
            """The kernel ends the template with the thread that started it, so this one waits."""
            with contextlib.suppress(OSError):
                self.process = self._popen(home, theirs)
            theirs.close()
            started.set()
            over.wait()

        over = self._over = threading.Event()
        threading.Thread(target=hold, daemon=True).start()
        started.wait()
        self._control = ours
        return ours

    def _popen(self, home: Path, control: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", MODULE, str(os.getpid())],
            env=sandbox.environment(self.threads, self.device, home),
            stdin=control.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _stop(self) -> None:
        """End it, and with it every server that is left."""
        process, self.process = self.process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is not None:
            process.kill()
            process.wait()
        self._over.set()
        if self._folder is not None:
            shutil.rmtree(self._folder / "template", ignore_errors=True)
            release_folder(self._folder)
            self._folder = None

    def close(self) -> None:
        """End it; all of its servers have been closed before."""
        with self._lock:
            self._stop()


def _writer(handle: int) -> IO[bytes]:
    return os.fdopen(handle, "wb")


def _reader(handle: int) -> IO[bytes]:
    return os.fdopen(handle, "rb", buffering=0)
