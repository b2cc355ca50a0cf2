"""A small numerical sketch of each tensor of a snapshot.

It tells "same within rounding" from "different" on another machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SAME_WITHIN = 1e-3
"""Largest difference of a sketch entry, relative to the tensor's norm, that rounding explains."""
NEGLIGIBLE = 1e-4
"""Share of a snapshot's largest norm below which a tensor's own norm is no measure."""
WAVES = ((0.7548776662, 0.3), (2.5698402910, 1.1))
"""Frequency and phase of the fixed waves that tensors are projected on."""
CHUNK = 1 << 20


class Comparison(StrEnum):
    """How two sketches of one snapshot relate."""

    IDENTICAL = "identical"
    ROUNDING = "same within rounding"
    DIFFERENT = "different"


def sketch_all(tensors: Mapping[str, NDArray[np.generic]]) -> dict[str, list[float]]:
    """Sketch of every tensor of an update."""
    return {name: sketch(tensors[name]) for name in sorted(tensors)}


def sketch(tensor: NDArray[np.generic]) -> list[float]:
    """Norm and projections on the fixed waves, in double precision, a chunk at a time.

    A wave that starts later is the same wave turned, so one table serves every chunk.
    """
    import numpy as np

    flat = tensor.reshape(-1)
    square, sums = 0.0, [0.0] * len(WAVES)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK].astype(np.float64)
        square += _dot(part, part)
        for number, (frequency, phase) in enumerate(WAVES):
            cosine, sine = _table(frequency)
            angle = frequency * start + phase
            sums[number] += _dot(part, cosine[: part.size]) * math.cos(angle)
            sums[number] -= _dot(part, sine[: part.size]) * math.sin(angle)
    return [float(f"{value:.9e}") for value in (math.sqrt(square), *sums)]


def _dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Without the linear algebra library, whose threads cost more than they bring here."""
    import numpy as np

    return float(np.einsum("i,i->", first, second))


@cache
def _table(frequency: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    angles = frequency * np.arange(CHUNK, dtype=np.float64)
    return np.cos(angles), np.sin(angles)


def compare(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> Comparison:
    """Whether two sketches speak of the same tensors."""
    if first.keys() != second.keys():
        return Comparison.DIFFERENT
    largest = max((numbers[0] for numbers in (*first.values(), *second.values())), default=0.0)
    least = NEGLIGIBLE * largest
    worst = max((_distance(first[name], second[name], least) for name in first), default=0.0)
    if worst == 0.0:
        return Comparison.IDENTICAL
    return Comparison.ROUNDING if worst <= SAME_WITHIN else Comparison.DIFFERENT


def _distance(first: Sequence[float], second: Sequence[float], least: float) -> float:
    """Largest difference relative to the norm, or to `least` where the tensor is next to nothing.

    Some gradients are zero but for rounding, such as that of an attention's key bias.
    """
    scale = max(first[0], second[0], least)
    if scale == 0.0:
        return 0.0
    return max(abs(a - b) for a, b in zip(first, second, strict=True)) / scale
