"""Whether two attacks differ on the snapshots that both were run on.

The test flips the signs of their differences, snapshot by snapshot: if neither is better, each
difference might as well have been the other way round. Two-sided, on the mean difference. All sign
patterns are tried where that is cheap, else a fixed draw of them; Holm's correction over a family
of tests keeps the chance of even one false difference at 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

RULE = (
    "Every pair is compared snapshot by snapshot (sign-flip test of the mean difference, Holm's "
    "correction over all pairs of the table, 5 %). From the highest mean down, an attack opens a "
    "new rank where one at the current rank is significantly better; otherwise it shares that rank."
)
"""How ranks come about, for readers of a table: `all_pairs` and `tied_ranks` in words."""

SIGNIFICANT = 0.05
DRAWS = 9_999
"""Sign patterns that are drawn where all are too many; together with the observed one, 10,000."""
SEED = 20_220_517
"""Any fixed number would do."""
BLOCK = 1_000
"""Patterns at a time: what stays in a processor's cache is several times as fast."""
ROUNDING = 1e-9
"""Two sums of differences that are closer than this are equal but for rounding."""


def sign_flip_p_values(differences: Floats, draws: int = DRAWS) -> Floats:
    """The two-sided p value of each row of differences, (tests, snapshots) -> (tests,).

    A difference of 0 says nothing, whichever way it is flipped. Where all others agree in sign,
    only the observed pattern and its opposite are as extreme, so nothing has to be tried.
    """
    tests, size = differences.shape
    if not tests or not size:
        return np.ones(tests)
    observed = np.abs(differences.sum(axis=1))  # (tests,)
    informative = (np.abs(differences) > ROUNDING).sum(axis=1)
    agreeing = np.abs(np.abs(differences).sum(axis=1) - observed) <= ROUNDING
    values = np.where(agreeing, np.minimum(1.0, 2.0 ** (1 - informative)), 1.0)
    open_ones = np.flatnonzero(~agreeing)
    if open_ones.size:
        patterns, exact = _patterns(size, draws)
        extreme = _count_extreme(differences[open_ones], observed[open_ones], patterns)
        count = patterns.shape[1]
        values[open_ones] = extreme / count if exact else (extreme + 1) / (count + 1)
    return values


def _count_extreme(differences: Floats, observed: Floats, patterns: Bytes) -> Floats:
    """Of each row of differences, the sign patterns that give as large a sum as was observed.

    The sums of eight differences under all their signs are looked up by the byte that spells the
    signs, instead of a matrix product, whose threads may cost more than they gain.
    """
    eights = len(patterns)
    padding = 8 * eights - differences.shape[1]
    groups = np.pad(differences, ((0, 0), (0, padding))).T.reshape(eights, 8, 1, -1)
    sums = np.zeros((eights, 1, len(differences)))
    for bit in range(8):
        change = groups[:, bit]
        sums = np.concatenate([sums + change, sums - change], axis=1)  # (eights, 2 ** bit, tests)
    counts = np.zeros(len(differences))
    for start in range(0, patterns.shape[1], BLOCK):
        block = patterns[:, start : start + BLOCK]
        totals = sums[0].take(block[0], axis=0)  # (block, tests)
        for rest, byte in zip(sums[1:], block[1:], strict=True):
            totals += rest.take(byte, axis=0)
        counts += (np.abs(totals) >= observed - ROUNDING).sum(axis=0)
    return counts


@lru_cache(maxsize=64)
def _patterns(size: int, draws: int) -> tuple[Bytes, bool]:
    """Sign patterns as columns of bytes, a bit a snapshot; and whether those are all there are.

    Patterns that differ in all signs are equally extreme, so one of each two is enough.
    """
    eights = -(-size // 8)
    if 2 ** (size - 1) <= draws:
        codes = np.arange(2 ** (size - 1))
        parts = codes[None, :] >> (8 * np.arange(eights))[:, None] & 255
        return parts.astype(np.uint8), True
    generator = np.random.Generator(np.random.PCG64(SEED))
    return generator.integers(0, 256, size=(eights, draws), dtype=np.uint8), False


def shuffle_p_value(first: Floats, second: Floats, draws: int = DRAWS) -> float:
    """Of two samples without pairs: how often a random split of them differs as much in mean."""
    joined = np.concatenate([first, second])
    generator = np.random.Generator(np.random.PCG64(SEED))
    mixed = generator.permuted(np.tile(joined, (draws, 1)), axis=1)  # (draws, values)
    parts = mixed[:, : len(first)].mean(axis=1) - mixed[:, len(first) :].mean(axis=1)
    extreme = np.abs(parts) >= abs(first.mean() - second.mean()) - ROUNDING
    return float((extreme.sum() + 1) / (draws + 1))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Holm's adjusted p values: those of at most 5 % are significant together."""
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    factors = np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(given[order] * factors))
    return adjusted


def enough_draws(tests: int) -> int:
    """Sign patterns to draw so that the smallest p value is significant among so many tests."""
    return max(DRAWS, int(2 * tests / SIGNIFICANT))


def all_pairs(values: Floats) -> Floats:
    """Adjusted p values of all pairs of rows, (rows, snapshots) -> (rows, rows), symmetric."""
    rows = len(values)
    first, second = np.triu_indices(rows, 1)
    found = np.ones((rows, rows))
    if len(first):
        p_values = sign_flip_p_values(values[first] - values[second], enough_draws(len(first)))
        found[first, second] = found[second, first] = holm(p_values)
    return found


def can_tell_apart(tests: int, snapshots: int) -> bool:
    """Whether any difference could be significant with so many tests on so few snapshots."""
    return tests * 2.0 ** (1 - snapshots) <= SIGNIFICANT


def tied_ranks(means: Sequence[float], p_values: Floats) -> list[int]:
    """Ranks of rows, the highest mean first; rows that cannot be told apart share one.

    From the highest mean down, a row opens a new rank where a row at the current rank is
    significantly better than it; otherwise it shares that rank. Rows of equal mean stay together.
    Ranks are counted as in sport (1, 1, 3).
    """
    ranks = [0] * len(means)
    order = sorted(range(len(means)), key=lambda row: -means[row])
    current: list[int] = []
    place = 0
    while place < len(order):
        block = [row for row in order[place:] if means[row] == means[order[place]]]
        if any(p_values[above, row] <= SIGNIFICANT for above in current for row in block):
            current = []
        start = place + 1 if not current else ranks[current[0]]
        for row in block:
            ranks[row] = start
        current = [*current, *block]
        place += len(block)
    return ranks
