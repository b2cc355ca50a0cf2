"""Imports torch once for all fork servers of a run, and forks each of them.

A server begins here as it would by itself: with the same clean environment, its own session, no
file but its three streams, and generators of its own. The template knows nothing that a server may
not know. It is asked for a server before that server is told anything, and what servers are told
does not come by here. It cannot be traced, and nobody but the harness holds an end of its socket.
Sandboxes are put around each job, as ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
import tempfile
from typing import NoReturn

from benchmark.execution import cheap_forks, forkserver, namespaces
from benchmark.execution.isolation import close_files_except, run_and_exit

MAX_REQUEST = 1 << 16
STREAMS = 3
"""Standard input, output and error of a server."""


class Template:
    """Forks servers until the harness closes its end of the socket."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.namespaces = namespaces.available()  # which has to be tried by a traceable process
        self.warm = False
        namespaces.set_traceable(False)

    def serve(self) -> None:
        """Fork a server for each request; the harness is told its number, and is handed it."""
        while True:
            message, streams, _, _ = socket.recv_fds(self.control, MAX_REQUEST, STREAMS)
            if not message:
                return
            self._reap()
            request = json.loads(message)
            if request["warm"]:
                self._warm_up()
            self._answer(request["home"], streams)

    def _warm_up(self) -> None:
        """Do what most jobs begin with, once, and make the forks of all servers cheap."""
        if not self.warm:
            forkserver.warm_up()
            cheap_forks.onto_huge_pages()
            self.warm = True

    def _answer(self, home: str, streams: list[int]) -> None:
        if len(streams) != STREAMS or _threads() > 1:  # other threads do not survive a fork
            _close(streams)
            self.control.send(b"{}")
            return
        template = os.getpid()
        server = os.fork()
        if server == 0:
            run_and_exit(lambda: self._become_server(template, home, streams))
        _close(streams)  # before anybody hears of the server, whose they are
        handle = os.pidfd_open(server)
        answer = json.dumps({"pid": server, "warm": self.warm}).encode()
        socket.send_fds(self.control, [answer], [handle])
        os.close(handle)

    def _become_server(self, template: int, home: str, streams: list[int]) -> int:
        """What a fresh server has after its start, and nothing of the template's."""
        namespaces.die_with_parent()
        if os.getppid() != template:
            return 1
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        self.control.detach()
        close_files_except(set(range(STREAMS)))
        os.environ["HOME"] = os.environ["TMPDIR"] = home
        tempfile.tempdir = None
        _draw_other_numbers()
        forkserver.serve(forkserver.read_limits(), self.namespaces, self.warm)
        return 0

    def _reap(self) -> None:
        """Forget servers that have ended."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _draw_other_numbers() -> None:
    """Generators that a fresh server would seed by chance are not those of its siblings.

    An attack could otherwise draw what a defense has drawn that forgets to use its own seed.
    """
    import numpy as np

    random.seed()
    np.random.seed()


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


def _threads() -> int:
    """Threads of this process, those of native libraries included."""
    return len(os.listdir("/proc/self/task"))


def main() -> NoReturn:
    """Import what every job needs, and serve the socket that is standard input."""
    namespaces.die_with_parent()
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
    control = socket.socket(fileno=os.dup(0))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    forkserver.import_libraries()
    Template(control).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
