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
    except (OSError, AttributeError):  # the kernel, or Python, is too old
        return False
    return hasattr(signal, "pidfd_send_signal")


@dataclass
class ForkedServer:
    """A fork server that is not a child of the harness; used like one that `Popen` started."""

    pid: int
    handle: int
    """Names the process even when its number has been given to another one; -1 once it is gone."""
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    warm: bool
    """Whether it has opened models."""

    def poll(self) -> int | None:
        """None while it runs."""
        running = self.handle >= 0 and not select.select([self.handle], [], [], 0)[0]
        return None if running else 0

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
        self._refused = self._closed = False

    def fork(self, home: Path, errors: int, warm: bool) -> ForkedServer | None:
        """A server with this home that writes its errors there; None where it cannot be had.

        A template that has failed is asked no more, and stays: others' servers end with it.
        """
        with self._lock:
            if self._closed:
                raise OSError("the run is over")
            if self._refused:
                return None
            control = self._control or self._start()
            theirs_in, ours_in = os.pipe()
            ours_out, theirs_out = os.pipe()
            try:
                request = json.dumps({"home": str(home), "warm": warm}).encode()
                socket.send_fds(control, [request], [theirs_in, theirs_out, errors])
                answer, handles, _, _ = socket.recv_fds(control, 1024, 1)
                said, ended = json.loads(answer or b"{}"), not answer
            except OSError as error:
                said, handles, ended = {}, [], not isinstance(error, TimeoutError)
            os.close(theirs_in)
            os.close(theirs_out)
            if not said or not handles:
                os.close(ours_in)
                os.close(ours_out)
                if ended:  # another one may follow
                    self._stop()
                self._refused = not ended
                return None
            streams = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb", buffering=0)
            return ForkedServer(said["pid"], handles[0], *streams, said["warm"])

    def _start(self) -> socket.socket:
        self._folder = claim_folder(self.base)
        home = self._folder / "template"
        home.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_SECONDS)
        started = threading.Event()

        def hold() -> None:
            """The kernel ends the template with the thread that started it, so this one waits."""
            try:
                with contextlib.suppress(OSError):
                    self.process = self._popen(home, theirs)
            finally:
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

    def abort(self) -> None:
        """End it now, even while somebody waits for its answer; it forks no more."""
        self._closed = True
        if (process := self.process) is not None:
            process.kill()

    def close(self) -> None:
        """End it; all of its servers have been closed before."""
        with self._lock:
            self._closed = True
            self._stop()
