"""A run killed with -9 at random moments, then completed: the records of an undisturbed one.

Part of `make soak`; `make test` has a shorter one among the tests of the command.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import psutil
import pytest

from tests.benchmark.cli.test_cli import _workers_left, stable
from tests.faults.test_two_runs import start
from tests.ray_cluster import orphans_of_ray

KILLS = int(os.environ.get("LEAKBOARD_KILLS", "0"))
FIRST = int(os.environ.get("LEAKBOARD_SEED", "0"))
EACH = 5
"""Kills before the plan is completed and compared."""


def complete(results: Path, cache: Path, *more: str) -> None:
    run = start(results, cache, *more)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said


@pytest.mark.skipif(KILLS == 0, reason="make soak tries it")
@pytest.mark.parametrize("turn", range(KILLS // EACH))
def test_killed_at_random_moments(turn: int, tmp_path: Path) -> None:
    disturbed, undisturbed = kill_and_complete(tmp_path, FIRST + turn * EACH)
    assert disturbed == undisturbed
    assert _workers_left() == 0


@pytest.mark.skipif(KILLS == 0, reason="make soak tries it")
def test_killed_with_a_ray_cluster_of_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'leakboard[cluster]'")
    before = set(orphans_of_ray())
    cores = len(os.sched_getaffinity(0))  # which a local run with one job at a time has, too
    disturbed, undisturbed = kill_and_complete(
        tmp_path, FIRST, "--engine", "ray", "--cpus", str(cores)
    )
    assert disturbed == undisturbed
    assert _workers_left() == 0
    assert psutil.wait_procs(set(orphans_of_ray()) - before, timeout=20)[1] == []


def kill_and_complete(folder: Path, seed: int, *more: str) -> tuple[object, object]:
    """Kill a run some times and let it end; its records, and those of an undisturbed local run."""
    cache, calm, rough = (folder / name for name in ("cache", "calm", "rough"))
    for number in range(EACH):
        draw = random.Random(seed + number)
        run = start(rough, cache, *more)
        time.sleep(draw.uniform(0.5, 15.0))
        run.kill()
        run.communicate()
        for path in rough.rglob("*.json"):
            json.loads(path.read_text())
    complete(rough, cache, *more)
    places = ("jobs", "staging", "shipped")
    assert [path for place in places for path in (cache / place).rglob("*")] == []
    assert not list(folder.rglob("*.part"))
    complete(calm, folder / "fresh")
    return stable(rough), stable(calm)
