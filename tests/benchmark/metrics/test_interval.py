"""Intervals keep their promise at small n, whatever the distribution, and on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, t

from benchmark.metrics.interval import bounded_interval, t_interval, weighted_quantile

Sample = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Distribution = tuple[Sample, float]
"""Draws of a shape, and their true mean."""

SAMPLES = 500
TOLERANCE = 0.94
"""Coverage that a simulation has to show: 95 % less one standard error of so many samples. Gaffke's
interval is expected above 95 % everywhere."""


def mixture(*parts: tuple[float, float]) -> Distribution:
    """Values with their probabilities."""
    values, weights = zip(*parts, strict=True)

    def draw(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return source.choice(values, size=shape, p=weights)

    return draw, float(np.dot(values, weights))


BOUNDED: dict[str, Distribution] = {
    "0.9 of the mass at 1": mixture((1.0, 0.9), (0.0, 0.1)),
    "0.95 of the mass at 1": mixture((1.0, 0.95), (0.3, 0.05)),
    "0.9 of the mass at 0.5": mixture((0.5, 0.9), (0.0, 0.1)),
    "0.98 of the mass at 0": mixture((0.0, 0.98), (1.0, 0.02)),
    "a fair coin": mixture((0.0, 0.5), (1.0, 0.5)),
    "constant": mixture((0.7, 1.0)),
    "uniform": (lambda source, shape: source.random(shape), 0.5),
    "skewed": (lambda source, shape: source.beta(8, 0.8, shape), 8 / 8.8),
    "two humps": (lambda source, shape: source.beta(0.3, 0.3, shape), 0.5),
    "one sentence in four right": (lambda source, shape: source.binomial(4, 0.9, shape) / 4, 0.9),
}


def coverage(
    interval: Callable[[list[float]], tuple[float, float, float]], of: Distribution, n: int
) -> float:
    draw, mean = of
    samples = draw(np.random.default_rng(n), (SAMPLES, n))
    ends = [interval(np.sort(values).tolist())[1:] for values in samples]
    return float(np.mean([low - 1e-9 <= mean <= high + 1e-9 for low, high in ends]))


@pytest.mark.parametrize("n", [3, 8, 16, 32])
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_means_are_covered_whatever_their_distribution(name: str, n: int) -> None:
    assert coverage(lambda v: bounded_interval(v, 0.0, 1.0), BOUNDED[name], n) >= TOLERANCE


def test_student_would_not_keep_that_promise() -> None:
    """Why scores do not have it: eight of eight exact would read as certainty."""
    assert coverage(lambda v: t_interval(v, (0.0, 1.0)), BOUNDED["0.9 of the mass at 1"], 8) < 0.7


UNBOUNDED: dict[str, Distribution] = {
    "normal": (lambda source, shape: source.normal(3.0, 2.0, shape), 3.0),
    "accuracy over 350 rows": (lambda s, shape: s.binomial(350, 0.85, shape) / 350, 0.85),
    "somewhat skewed": (lambda source, shape: source.gamma(12, 1.0, shape), 12.0),
}


@pytest.mark.parametrize("n", [3, 8, 16, 32])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_means_of_costs_and_utilities_are_covered(name: str, n: int) -> None:
    draw, mean = UNBOUNDED[name]
    samples = draw(np.random.default_rng(n), (4 * SAMPLES, n))
    half = t.ppf(0.975, n - 1) * samples.std(axis=1, ddof=1) / math.sqrt(n)
    covered = np.abs(samples.mean(axis=1) - mean) <= half
    assert covered.mean() >= TOLERANCE
    for row, width in zip(samples[:20].tolist(), half, strict=False):
        found, low, high = t_interval(row)
        assert (high - low) / 2 == pytest.approx(width, abs=1e-8)
        assert found == pytest.approx(sum(row) / n)


@pytest.mark.parametrize("n", [1, 8, 32, 100])
def test_proportions_have_the_interval_of_clopper_and_pearson(n: int) -> None:
    for hits in {0, 1, n // 2, n - 1, n}:
        _, low, high = bounded_interval([1.0] * hits + [0.0] * (n - hits), 0.0, 1.0)
        assert low == pytest.approx(beta.ppf(0.025, hits, n - hits + 1) if hits else 0, abs=1e-8)
        assert high == pytest.approx(
            beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1, abs=1e-8
        )


def test_the_quantile_is_that_of_means_under_random_weights() -> None:
    """Against drawing the weights."""
    points = (0.1, 0.2, 0.2, 0.5, 0.9, 1.0)
    weights = np.random.default_rng(0).dirichlet([1.0] * len(points), 200_000)
    drawn = np.quantile(weights @ np.array(points), [0.025, 0.5, 0.975])
    made = [weighted_quantile(points, level) for level in (0.025, 0.5, 0.975)]
    assert made == pytest.approx(drawn, abs=2e-3)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_interval_holds_the_mean_and_stays_in_range(values: list[float]) -> None:
    mean, low, high = bounded_interval(values, 0.0, 1.0)
    assert mean == pytest.approx(math.fsum(values) / len(values))
    assert 0.0 <= low <= mean <= high <= 1.0
    assert bounded_interval(values[::-1], 0.0, 1.0)[1:] == (low, high), "the order says nothing"


def test_more_snapshots_are_more_certain() -> None:
    widths = [
        high - low
        for _, low, high in (bounded_interval([0.2, 0.8] * n, 0.0, 1.0) for n in (1, 4, 16, 64))
    ]
    assert widths == sorted(widths, reverse=True)


def test_eight_of_eight_is_no_certainty() -> None:
    mean, low, high = bounded_interval([1.0] * 8, 0.0, 1.0)
    assert (mean, high) == (1.0, 1.0)
    assert low == pytest.approx(0.025 ** (1 / 8), abs=1e-8)


def test_a_single_cost_has_no_width_and_ends_stay_in_range() -> None:
    assert t_interval([812.4]) == (812.4, 812.4, 812.4)
    assert t_interval([1.0, 5.0, 1.2], (1.0, None))[1] == 1.0
    assert t_interval([0.9, 0.99, 0.8], (0.0, 1.0))[2] == 1.0


@pytest.mark.parametrize("interval", [t_interval, lambda v: bounded_interval(v, 0.0, 1.0)])
def test_nothing_has_no_mean(interval: Callable[[list[float]], object]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval([])


def test_a_value_out_of_range_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="outside"):
        bounded_interval([0.5, 1.5], 0.0, 1.0)


def test_figures_stay_what_they_are() -> None:
    """Pinned: a change would silently move every published interval."""
    values = [0.0, 0.25, 0.5, 1.0, 1.0, 0.75, 0.125, 0.375]
    assert bounded_interval(values, 0.0, 1.0) == (0.5, 0.227657863, 0.783042292)
    assert t_interval(values) == (0.5, 0.17911449, 0.82088551)
