"""What a process owns stays while it lives; what a killed one left behind is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark import ownership
from benchmark.files import naming, write_atomically
from tests.conftest import ROOT

OWNER = """
import sys, time
from pathlib import Path
from benchmark import files, ownership
folder = ownership.claim_folder(Path(sys.argv[1]))
(folder / "private").write_text("a sentence")
def stuck(handle):
    print("ready", flush=True)
    time.sleep(600)
files.os.fsync = stuck
files.write_atomically(Path(sys.argv[1]) / "truth.json", "a sentence")
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process with a folder of its own and a file that it is just writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_living_are_left_alone_and_the_dead_leave_nothing(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    before = names(tmp_path)
    assert "private" in before
    assert any(name.startswith(".truth.json.") and name.endswith(".part") for name in before)
    ownership.remove_orphans(tmp_path)
    ownership.remove_parts(tmp_path)
    assert names(tmp_path) == before
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    ownership.remove_orphans(tmp_path)
    ownership.remove_parts(tmp_path)
    assert names(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_claiming_a_folder_removes_those_of_the_dead(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    owner.kill()
    owner.wait()
    mine = ownership.claim_folder(tmp_path)
    assert "private" not in names(tmp_path)
    assert mine.is_dir()
    ownership.remove_orphans(tmp_path)  # not even this process takes its own for an orphan
    assert mine.is_dir()
    ownership.release_folder(mine)
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".part")] == []


def test_a_folder_that_nobody_may_list_is_removed_all_the_same(tmp_path: Path) -> None:
    mine = ownership.claim_folder(tmp_path)
    (mine / "closed").mkdir()
    (mine / "closed" / "file").write_text("x")
    (mine / "closed").chmod(0)
    ownership.release_folder(mine)
    assert list(tmp_path.iterdir()) == []


def test_writers_and_sweepers_at_once_lose_nothing(tmp_path: Path) -> None:
    """A writer whose file is swept away before it is locked writes again."""
    over = threading.Event()

    def sweep() -> None:
        while not over.is_set():
            ownership.remove_parts(tmp_path)

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for number in range(200):
            write_atomically(tmp_path / f"{number % 7}.json", str(number))
    finally:
        over.set()
        for sweeper in sweepers:
            sweeper.join()
    assert sorted(int(path.read_text()) for path in tmp_path.iterdir()) == list(range(193, 200))


def test_a_full_disk_names_the_file() -> None:
    """`/dev/full` takes no byte; the error says which file that was."""
    with (
        pytest.raises(OSError, match=r"No space left.*results/cell\.json") as caught,
        naming(Path("results/cell.json")),
        open("/dev/full", "w") as stream,
    ):
        stream.write("x" * 100_000)
    assert caught.value.filename == "results/cell.json"


def test_only_one_process_at_a_time_and_never_a_dead_one(cache: Path) -> None:
    """The lock of a killed process is free at once."""
    code = (
        "import sys, time; from benchmark.ownership import alone\n"
        "with alone('it'): print('in', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    entered = threading.Event()

    def enter() -> None:
        with ownership.alone("it"):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.3)
    process.kill()
    process.wait()
    process.stdout.close()
    waiting.join(10)
    assert entered.is_set()
