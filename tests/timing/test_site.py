"""What a site costs against reading its records alone, up to ten thousand of them."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from leaderboard.data.rows import load
from leaderboard.render.site import render
from tests.leaderboard.many import many_catalog, write_many
from tests.timing.ratios import in_turn, only_timed


@pytest.mark.parametrize(
    ("count", "most"),
    [(1_000, 60.0), (10_000, 25.0)],  # a few seconds of each site go into its figures
)
def test_a_site_takes_a_small_multiple_of_reading_its_records(
    benchmark: BenchmarkFixture, tmp_path: Path, count: int, most: float
) -> None:
    """10,000 records take 42 s of processor time, reading them 2.6 s; 1,000 take 5 s and 0.2 s."""
    only_timed(benchmark)
    results, out = tmp_path / "results", tmp_path / "site"
    write_many(results, count)
    ratio, rows, page = in_turn(
        benchmark, lambda: load(results), lambda: render(results, out, many_catalog()), rounds=1
    )
    assert len(rows) == count
    assert len(list((out / "cells").rglob("*.html"))) == count
    assert page.stat().st_size < 1_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000  # kilobytes
    assert ratio < most
