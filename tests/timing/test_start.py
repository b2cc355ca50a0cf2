"""Starting a worker costs milliseconds, not the seconds that importing torch takes."""

from __future__ import annotations

import subprocess
import sys
import time

from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.engines.local import LocalEngine
from benchmark.jobs import Job
from benchmark.paths import ROOT


def test_a_forked_worker_starts_far_faster_than_a_fresh_one(
    benchmark: BenchmarkFixture, engine: LocalEngine
) -> None:
    """The same job, to describe a submission: in the fork server, and in a new interpreter."""
    payload = {"submission": str(ROOT / "submissions/attacks/random.py"), "role": "attack"}
    assert engine.one(Job("describe", payload)).status == "ok"  # the server is up
    outcome = benchmark.pedantic(lambda: engine.one(Job("describe", payload)), rounds=10)
    assert outcome.events("described")
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import tasks.public, benchmark.worker"], check=True, cwd=ROOT
    )
    fresh = time.perf_counter() - start
    assert fresh / benchmark.stats.stats.median > 8
