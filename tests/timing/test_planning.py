"""A plan answers at once: under two seconds of processor time for the whole of mini."""

from __future__ import annotations

import resource

from pytest_benchmark.fixture import BenchmarkFixture

from tests.conftest import Command
from tests.timing.ratios import only_timed


def test_a_dry_run_of_everything_takes_less_than_two_seconds(
    leakboard: Command, benchmark: BenchmarkFixture
) -> None:
    """Of the command and all its children, with what an earlier plan left in the cache."""
    only_timed(benchmark)
    arguments = ("run", "--dry-run", "--results", "no-results-yet")
    assert leakboard(*arguments, LEAKBOARD_SUBMISSIONS="").returncode == 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert leakboard(*arguments, LEAKBOARD_SUBMISSIONS="").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 2.0
