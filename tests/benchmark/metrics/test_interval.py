"""The bootstrap is deterministic and brackets the mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.metrics.interval import RESAMPLES, SEED, bootstrap

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(deadline=None)
@given(VALUES)
def test_brackets_the_mean_within_the_values(values: list[float]) -> None:
    mean, low, high = bootstrap(values)
    assert mean == pytest.approx(math.fsum(values) / len(values))
    slack = 1e-12
    assert min(values) - slack <= low <= mean <= high <= max(values) + slack
    assert bootstrap(values) == (mean, low, high)


@pytest.mark.parametrize("values", [[0.3], [0.1, 0.1, 0.1]])
def test_equal_values_have_no_width(values: list[float]) -> None:
    assert bootstrap(values) == (values[0], values[0], values[0])


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one"):
        bootstrap([])


def test_figures_stay_what_they_are() -> None:
    """Pinned: a change would silently move every published interval."""
    assert bootstrap([0.0, 0.25, 0.5, 1.0, 1.0, 0.75, 0.125, 0.375]) == (0.5, 0.265625, 0.75)


def test_equals_a_plain_loop() -> None:
    values = [0.2, 0.9, 0.4, 0.4]
    draws = np.random.default_rng(SEED).integers(0, 4, size=(4, RESAMPLES))
    means = sorted(sum(values[i] for i in draws[:, k]) / 4 for k in range(RESAMPLES))
    assert bootstrap(values)[1:] == (means[50], means[-51])
