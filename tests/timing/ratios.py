"""Ratios of processor time, both sides measured in turn in one run.

Processor time leaves out what other programs take of the machine, taking turns lets a slow moment
hit both sides alike, and medians pass over single outliers. Only `make timing` measures; where
pytest-benchmark is disabled, as in `make test`, each side runs once, for its answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

Fast = TypeVar("Fast")
Slow = TypeVar("Slow")


def only_timed(benchmark: BenchmarkFixture) -> None:
    """Skip a test that has nothing to show but times."""
    if benchmark.disabled:
        pytest.skip("nothing but times to see here: make timing measures them")


def in_turn(
    benchmark: BenchmarkFixture,
    fast: Callable[[], Fast],
    slow: Callable[[], Slow],
    rounds: int = 3,
    work: float = 1.0,
) -> tuple[float, Fast, Slow]:
    """How many times as fast the fast way is, and what both ways gave last.

    `work` is how many times as much the fast way does in a call. Where nothing is timed, the ratio
    is infinite.
    """
    answers: list[Slow] = []
    took: list[float] = []

    def slowly() -> None:
        start = time.process_time()
        answers.append(slow())
        took.append(time.process_time() - start)

    if not benchmark.disabled:
        fast()  # warm
    found: Fast = benchmark.pedantic(fast, setup=slowly, rounds=rounds)
    if benchmark.disabled:
        return math.inf, found, answers[-1]
    ratio = work * median(took) / benchmark.stats.stats.median
    benchmark.extra_info["ratio"] = round(ratio, 2)
    print(f"\n{benchmark.name}: {ratio:.2f} times as fast")
    return ratio, found, answers[-1]
