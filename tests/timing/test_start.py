"""Starting a worker costs milliseconds, not the seconds that importing torch takes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Described
from benchmark.execution.jobs import DescribeJob, Job
from benchmark.paths import ROOT
from tests.timing.ratios import only_timed


@pytest.mark.benchmark(timer=time.perf_counter)  # the time of another process
def test_a_forked_worker_starts_far_faster_than_a_fresh_one(
    benchmark: BenchmarkFixture, engine: LocalEngine
) -> None:
    """The same job, to describe a submission: in the fork server, and in a new interpreter."""
    only_timed(benchmark)
    reference = str(ROOT / "submissions/attacks/random.py")
    job = Job(DescribeJob(submission=reference, role="attack"))
    assert engine.one(job).status == "ok"  # the server is up
    outcome = benchmark.pedantic(lambda: engine.one(job), rounds=10)
    assert outcome.events(Described)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import tasks.public, benchmark.execution.worker"],
        check=True,
        cwd=ROOT,
    )
    fresh = time.perf_counter() - start
    assert fresh / benchmark.stats.stats.median > 8
