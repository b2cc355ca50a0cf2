"""A run killed with -9 at random moments, then completed: the records of an undisturbed one.

Part of `make soak`; `make test` has a shorter one among the tests of the command.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from tests.benchmark.cli.test_cli import _workers_left, stable
from tests.faults.test_two_runs import start

KILLS = int(os.environ.get("LEAKBOARD_KILLS", "0"))
FIRST = int(os.environ.get("LEAKBOARD_SEED", "0"))
EACH = 5
"""Kills before the plan is completed and compared."""


def complete(results: Path, cache: Path) -> None:
    run = start(results, cache)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said


@pytest.mark.skipif(KILLS == 0, reason="make soak tries it")
@pytest.mark.parametrize("turn", range(KILLS // EACH))
def test_killed_at_random_moments(turn: int, tmp_path: Path) -> None:
    cache, calm, rough = (tmp_path / name for name in ("cache", "calm", "rough"))
    for number in range(EACH):
        draw = random.Random(FIRST + turn * EACH + number)
        run = start(rough, cache)
        time.sleep(draw.uniform(0.5, 15.0))
        run.kill()
        run.communicate()
        for path in rough.rglob("*.json"):
            json.loads(path.read_text())
    complete(rough, cache)
    left = [path for folder in ("jobs", "staging") for path in (cache / folder).rglob("*")]
    assert left == []
    assert not list(tmp_path.rglob("*.part"))
    complete(calm, tmp_path / "fresh")
    assert stable(rough) == stable(calm)
    assert _workers_left() == 0
