"""Which side the papers find better, tested on our own snapshots.

Where both sides attack the same private sentences, the differences are paired sentence by
sentence; where they cannot (batches of different sizes), the two samples are compared as they are.
Holm's correction runs over all orderings together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmark.files import Strict
from benchmark.metrics.interval import bounded_interval
from benchmark.metrics.paired import SIGNIFICANT, holm, shuffle_p_value, sign_flip_p_values
from benchmark.suites import NO_DEFENSE

Snapshot = tuple[int, int]
"""Seed and index."""
Values = Mapping[Snapshot, float]
Verdict = Literal["holds", "not told apart", "reversed", "not measured"]


class OrderingSide(Strict):
    """One side of an ordering: what is attacked by what under which defense."""

    task: str
    attack: str
    defense: str = NO_DEFENSE

    @property
    def label(self) -> str:
        """As a reader may type it."""
        under = "" if self.defense == NO_DEFENSE else f" under {self.defense}"
        return f"{self.attack} on {self.task}{under}"


class Ordering(Strict):
    """One claim of a paper: the better side scores higher than the worse one."""

    claim: str
    paper: str
    metric: str
    better: OrderingSide
    worse: OrderingSide
    paired: bool = True
    """Whether snapshot i of both sides is made from the same sentences."""


class Orderings(Strict):
    """All claims that we test."""

    orderings: list[Ordering]


@dataclass(frozen=True)
class ComparedOrdering:
    """An ordering with our figures."""

    ordering: Ordering
    better: float | None
    """Mean of the better side; None where it was not measured."""
    worse: float | None
    difference: float | None
    low: float | None
    high: float | None
    """95 % interval of the difference, where it is paired; all metrics here run from 0 to 1."""
    snapshots: int
    """Of the better side; where it is paired, those that both sides have."""
    snapshots_worse: int
    p_value: float | None
    """After Holm's correction."""
    verdict: Verdict


def compare_orderings(
    measured: Sequence[tuple[Ordering, Values, Values]],
) -> list[ComparedOrdering]:
    """Every ordering with the values of its two sides, snapshot by snapshot."""
    raw = [_p_value(ordering, better, worse) for ordering, better, worse in measured]
    known = [p for p in raw if p is not None]
    corrected = iter(holm(known).tolist())
    return [
        _tested(ordering, better, worse, None if p is None else next(corrected))
        for (ordering, better, worse), p in zip(measured, raw, strict=True)
    ]


def _common(better: Values, worse: Values) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Differences on the snapshots that both sides have."""
    shared = sorted(better.keys() & worse.keys())
    return np.array([better[key] - worse[key] for key in shared], dtype=np.float64)


def _p_value(ordering: Ordering, better: Values, worse: Values) -> float | None:
    if not better or not worse:
        return None
    if ordering.paired:
        return float(sign_flip_p_values(_common(better, worse)[None, :])[0])
    return shuffle_p_value(np.array([*better.values()]), np.array([*worse.values()]))


def _tested(
    ordering: Ordering, better: Values, worse: Values, p_value: float | None
) -> ComparedOrdering:
    if p_value is None:
        return ComparedOrdering(ordering, None, None, None, None, None, 0, 0, None, "not measured")
    if ordering.paired:
        shared = better.keys() & worse.keys()
        better = {key: better[key] for key in shared}
        worse = {key: worse[key] for key in shared}
    means = [float(np.mean([side[key] for key in sorted(side)])) for side in (better, worse)]
    difference = means[0] - means[1]
    low = high = None
    if ordering.paired:
        _, low, high = bounded_interval(_common(better, worse).tolist(), -1.0, 1.0)
    verdict: Verdict = "not told apart"
    if p_value <= SIGNIFICANT:
        verdict = "holds" if difference > 0 else "reversed"
    return ComparedOrdering(
        ordering, means[0], means[1], difference, low, high, len(better), len(worse), p_value,
        verdict,
    )  # fmt: skip
