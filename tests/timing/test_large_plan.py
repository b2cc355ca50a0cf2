"""A plan of 100,000 cells: within seconds and half a gigabyte, new or resumed from its records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.conftest import ROOT
from tests.timing.ratios import only_timed

CODE = """
import os, resource, sys, time
from pathlib import Path
from benchmark.plugins.catalog import Catalog, Entry
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.runs.plan import Selection, plan_cells
from tests.leaderboard.samples import make_record

def entries(kind, count):
    one = ("", "d" * 64, "", "", False, {})
    return Catalog({f"{kind}{i}": Entry(kind, f"{kind}{i}", *one) for i in range(count)})

tasks = [name for name in all_tasks() if name.startswith("mini/cola")][:4]
for name in tasks:
    load_task(all_tasks()[name])
start = time.process_time()
choice = Selection("mini", ",".join(tasks), "*", "*")
cells = plan_cells(choice, entries("attack", 100), entries("defense", 250), Path(sys.argv[1]))
seconds = time.process_time() - start
if sys.argv[2:]:
    text = make_record().model_dump_json()
    for cell in cells:
        os.makedirs(cell.path.parent, exist_ok=True)
        with open(cell.path, "w") as file:
            file.write(text.replace("f" * 64, cell.fingerprint))
megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(len(cells), sum(cell.cached for cell in cells), seconds, megabytes)
"""


def plan(results: Path, *more: str) -> list[float]:
    """Cells, cached ones, seconds of processor time, and peak memory of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(results), *more],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return [float(word) for word in done.stdout.split()]


@pytest.mark.usefixtures("cache")
def test_a_large_plan(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    only_timed(benchmark)
    cells, cached, seconds, megabytes = plan(tmp_path, "write the records")
    assert (cells, cached) == (100_000, 0)
    assert seconds < 5
    assert megabytes < 500
    plan(tmp_path)  # which makes the index
    cells, cached, seconds, megabytes = plan(tmp_path)
    assert (cells, cached) == (100_000, 100_000)
    assert seconds < 10
    assert megabytes < 500
