"""How sure a mean over few snapshots is: a percentile bootstrap, the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

RESAMPLES = 2_000
SEED = 20_220_517
"""Any fixed number would do; a changed one would move every published interval."""
TAIL = 0.025
"""Left out at either end: the interval covers 95 % of the resampled means."""


def bootstrap(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, low and high of at least one value.

    Sums run over the first axis, value by value, so that no processor's vector width changes
    their last digit, and the bounds are resampled means themselves, not interpolations.
    """
    if not values:
        raise ValueError("a mean needs at least one value")
    if min(values) == max(values):
        return values[0], values[0], values[0]
    mean = math.fsum(values) / len(values)
    sample = np.asarray(values, dtype=np.float64)
    generator = np.random.Generator(np.random.PCG64(SEED))
    draws = generator.integers(0, len(values), size=(len(values), RESAMPLES), dtype=np.int64)
    means = np.sort(sample[draws].sum(axis=0) / len(values))
    cut = int(TAIL * RESAMPLES)
    return mean, min(mean, float(means[cut])), max(mean, float(means[-1 - cut]))
