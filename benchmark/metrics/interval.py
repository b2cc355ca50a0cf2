"""How sure a mean over few values is: 95 % intervals that keep their promise at small n.

Scores between 0 and 1 are often all but constant (8 of 8 sentences exact), where Student's t and
the bootstrap claim certainty. Their interval is Gaffke's (2005), which assumes nothing about the
distribution but its range: draw n uniform numbers, which cut the range of probability into n + 1
parts, give one part to each value and the last to the end of the range; the bound is the 2.5 %
quantile of the mean so weighted. Where every value is 0 or 1 it is the interval of Clopper and
Pearson. One value is one snapshot, so the sentences of a batch need not be independent.

Other means (time, perplexity, training seeds) have Student's t, cut at the ends of their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from benchmark.metrics.table import Bounds

TAIL = 0.025
"""Left out at either end."""
DECIMALS = 9
"""No machine's rounding shows in a stored interval."""

Interval = tuple[float, float, float]
"""Mean, low and high."""


def bounded_interval(values: Sequence[float], bottom: float, top: float) -> Interval:
    """Gaffke's interval for the mean of values that cannot leave the range."""
    mean = _mean(values)
    if min(values) < bottom or max(values) > top:
        raise ValueError(f"a value lies outside of {bottom} to {top}")
    low = weighted_quantile((*sorted(values), bottom), TAIL)
    high = weighted_quantile((*sorted(values), top), 1 - TAIL)
    return mean, min(mean, low), max(mean, high)


def t_interval(values: Sequence[float], bounds: Bounds = (None, None)) -> Interval:
    """Student's interval, cut at the ends of the range; a single value has no width to show."""
    from scipy.special import stdtrit

    mean = _mean(values)
    if min(values) == max(values):
        return mean, mean, mean
    freedom = len(values) - 1
    variance = math.fsum((value - mean) ** 2 for value in values) / freedom
    half = float(stdtrit(freedom, 1 - TAIL)) * math.sqrt(variance / len(values))
    low, high = round(mean - half, DECIMALS), round(mean + half, DECIMALS)
    bottom, top = bounds
    low = low if bottom is None else max(low, bottom)
    high = high if top is None else min(high, top)
    return mean, min(mean, low), max(mean, high)


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("a mean needs at least one value")
    return values[0] if min(values) == max(values) else math.fsum(values) / len(values)


@lru_cache(maxsize=4096)
def weighted_quantile(points: tuple[float, ...], level: float) -> float:
    """Quantile of a mean of the points under weights that are uniform on the simplex.

    Its density is a B-spline whose knots are the points (Curry and Schoenberg, 1966), so its
    distribution function is the spline of one degree more that climbs from 0 to 1.
    """
    from scipy.interpolate import BSpline
    from scipy.optimize import brentq

    first, *_, last = knots = sorted(points)
    degree = len(knots) - 1
    if first == last:
        return first
    padded = np.array([*[first] * degree, *knots, *[last] * degree])
    climb = BSpline.construct_fast(padded, np.repeat([0.0, 1.0], degree), degree)

    def excess(place: float) -> float:
        share = 0.0 if place <= first else 1.0 if place >= last else float(climb(place))
        return share - level

    return round(float(brentq(excess, first, last, xtol=1e-12)), DECIMALS)
