"""Jobs of an ordinary user are shut in as those of root are, on whom the other tests run here."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from benchmark.execution import namespaces
from benchmark.execution.isolation import Isolation, JobDirectory, Pipes
from benchmark.execution.sandbox import AUDIT_HOOK, LANDLOCK, Limits, works

NOBODY = 65534
RUNTIME = ["/usr", "/lib", sys.prefix, sys.base_prefix, str(Path(__file__).parents[3])]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="only root can become somebody else"
)


@pytest.mark.parametrize("kind", [LANDLOCK, AUDIT_HOOK])
def test_a_job_of_an_ordinary_user_enters_its_namespaces(kind: str) -> None:
    """As in a fork server, which refuses to be traced before it forks its first job."""
    if not works(kind):
        pytest.skip(f"no {kind} here")
    with tempfile.TemporaryDirectory() as home:  # where everybody may go, unlike `tmp_path`
        os.chown(home, NOBODY, NOBODY)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = act_as_a_fork_server(Path(home), kind)
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, Path(home, "1", "log").read_text()


def act_as_a_fork_server(home: Path, kind: str) -> int:
    """0 where the job said what it had to say."""
    import resource  # noqa: F401 (a job may have to, where this user may read no library)

    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    namespaces.set_traceable(True)  # as a program that a user has started
    if not namespaces.available():
        return 0
    readable = [path for path in RUNTIME if os.path.exists(path)]
    limits = Limits(
        kind=kind, readable=readable, listable=[], home=str(home), devices=["/dev/null"],
        gpu=False, harness=os.getpid(),
    )  # fmt: skip
    isolation = Isolation(limits, namespaces=True)
    namespaces.set_traceable(False)
    folder = JobDirectory(home / "1")
    folder.make()
    answers, output = os.pipe()
    ours, theirs = socket.socketpair()

    def work() -> int:
        return int(os.write(output, b"worked") != 6)

    keeper = isolation.fork(folder, 100, Pipes(output, theirs), work)
    os.close(output)
    theirs.close()
    status = os.waitpid(keeper, 0)[1]
    ours.close()
    return int(status != 0 or os.read(answers, 100) != b"worked")
