"""The fork server sees every process of a job, whichever way the kernel tells of them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmark.execution import forkserver

PARENT = """
import subprocess, sys, threading
starts = lambda: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
thread = threading.Thread(target=starts)
thread.start(), thread.join(), starts()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family() -> Iterator[set[tuple[int, int]]]:
    """A child with two children of its own, one of them started by a thread."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        children = psutil.Process(parent.pid).children()
        assert len(children) == 2
        yield {(os.getpid(), parent.pid), *((parent.pid, child.pid) for child in children)}
        for child in children:
            child.kill()


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "no-lists"])
def test_children_of_children_are_seen(
    family: set[tuple[int, int]], lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lists:
        monkeypatch.setattr(Path, "exists", lambda path: False)
    elif not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        pytest.skip("this kernel lists no children")
    assert family <= set(forkserver._descendants())


def test_the_end_of_a_child_wakes_the_server() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with forkserver._end_of(child.pid) as handles:
        if not handles:
            pytest.skip("this kernel has no handles of processes")
        assert select.select(handles, [], [], 0.0)[0] == []
        child.communicate(b"\n")
        assert select.select(handles, [], [], 60.0)[0] == handles
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(handles[0])
