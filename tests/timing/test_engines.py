"""What the harness adds to a cell, and what a second node saves, on both engines.

What it adds is counted in processor time of all processes below this one, as everywhere in these
tests: time that other programs take of the machine is not the harness's, and neither is what Ray's
servers take when there is nothing to do.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Described
from benchmark.execution.jobs import DescribeJob, Job
from benchmark.paths import ROOT
from benchmark.results.schema import Status
from benchmark.runs.attack_run import Run
from tests.harness import Quiet
from tests.ray_cluster import Catalogs, TestCluster, cells_of, on_cluster, ray_cluster, sleepers
from tests.timing.ratios import only_timed

pytestmark = pytest.mark.filterwarnings("ignore:Benchmark fixture was not used")
WAIT = 10.0
"""Seconds of a cell of which the harness may take a twentieth."""
OVERHEAD, START_SECONDS = 0.05, 0.5


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugins: Path
) -> Iterator[TestCluster]:
    """Two nodes with a CPU each."""
    if request.config.getoption("benchmark_disable"):
        pytest.skip("nothing but times to see here: make timing measures them")
    with ray_cluster(tmp_path_factory.mktemp("nodes")) as running:
        running.add()
        running.add()
        yield running


@dataclass(frozen=True)
class Took:
    """What some cells took."""

    seconds: float
    processor: float


def measure(engine: Engine, catalogs: Catalogs, results: Path, attacks: str) -> Took:
    """Cells that are not there yet, once all slots are warm."""
    warm = cells_of(catalogs, results / "warm", sleepers(2 * len(engine.devices), 0.2))
    Run(engine, Quiet(), 60.0, 4000.0, "cpu").run(warm)
    cells = cells_of(catalogs, results, attacks)
    start, before = time.perf_counter(), processor_seconds()
    records = Run(engine, Quiet(), 60.0, 4000.0, "cpu").run(cells)
    took = Took(time.perf_counter() - start, processor_seconds() - before)
    assert {record.status for record in records} == {Status.OK}
    return took


def processor_seconds() -> float:
    """Of this process and all below it, those that have ended included."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # user, system, and both of ended children
    return total


def idle_share() -> float:
    """Of a core, what is taken while no cell runs: Ray's own servers, on all nodes of the test."""
    before = processor_seconds()
    time.sleep(WAIT)
    return (processor_seconds() - before) / WAIT


def start_seconds(engine: Engine) -> float:
    """The usual time of a job that does next to nothing, on a warm engine."""
    job = Job(DescribeJob(submission=str(ROOT / "submissions/attacks/random.py"), role="attack"))
    assert engine.one(job).events(Described)
    took = []
    for _ in range(9):
        start = time.perf_counter()
        engine.one(job)
        took.append(time.perf_counter() - start)
    return median(took)


def test_two_nodes_are_faster_than_one(
    benchmark: BenchmarkFixture, cluster: TestCluster, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None,
) -> None:  # fmt: skip
    only_timed(benchmark)
    took = {}
    for nodes in (1, 2):
        with on_cluster(cluster, jobs=nodes) as (engine, _):
            assert len(engine.devices) == nodes
            attacks, results = sleepers(8, 3.0), tmp_path / str(nodes)
            took[nodes] = measure(engine, catalogs, results, attacks).seconds
    ratio = took[1] / took[2]
    print(f"\ntwo nodes: {ratio:.2f} times as fast ({took[1]:.1f} s and {took[2]:.1f} s)")
    assert ratio >= 1.7


def test_the_harness_adds_little_to_a_cell_on_ray(
    benchmark: BenchmarkFixture, cluster: TestCluster, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None,
) -> None:  # fmt: skip
    only_timed(benchmark)
    with on_cluster(cluster, jobs=1) as (engine, _):
        overhead, start = overhead_and_start("ray", engine, catalogs, tmp_path)
    assert overhead <= OVERHEAD
    assert start <= START_SECONDS


def test_the_harness_adds_little_to_a_cell_on_this_machine(
    benchmark: BenchmarkFixture, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None,
) -> None:  # fmt: skip
    only_timed(benchmark)
    overhead, start = overhead_and_start("local", engine, catalogs, tmp_path)
    assert overhead <= OVERHEAD
    assert start <= START_SECONDS


def overhead_and_start(
    name: str, engine: Engine, catalogs: Catalogs, results: Path
) -> tuple[float, float]:
    """Share of a cell's seconds that the harness takes, and seconds until a worker has started."""
    took = measure(engine, catalogs, results, sleepers(2, WAIT))
    idle, start = idle_share(), start_seconds(engine)
    overhead = (took.processor - idle * took.seconds) / (2 * WAIT)
    passed = took.seconds / (2 * WAIT) - 1
    print(
        f"\n{name}: the harness takes {overhead:.1%} of cells of {WAIT:g} s ({passed:.1%} more "
        f"passed by the clock; idle servers take {idle:.1%}), a worker starts in {start:.3f} s"
    )
    return overhead, start
