"""The span of a linear layer's inputs, read from the layer's gradient.

The gradient of y = x Wᵀ is a sum over tokens of (output gradient) (input)ᵀ, so its rows are
combinations of the inputs, and with fewer tokens than dimensions they span nothing else. Noise,
be it rounding or a defense's, tilts that span. With singular values s, right vectors v and noise
of deviation e in every entry, perturbation theory to first order says how far an input x that was
there ends up outside: each of the n directions of the null space sees e² Σ (v·x / s)². A distance
is therefore never compared with a fixed tolerance but with what noise explains for this very x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from submissions.blocks.dager.anatomy import Site
from submissions.blocks.dager.completion import completed

EXACT = 32.0
"""Multiples of the rounding error, relative to the largest singular value, up to which the values
below the widest gap count as rounding."""
WIDE = 4.0
"""A factor between neighboring singular values that rounding does not make."""
SPARE = 1 / 24
"""Share of the dimensions kept as null space where the inputs fill the whole space."""


@dataclass(frozen=True)
class Span:
    """What a gradient says about the inputs of its layer."""

    basis: Tensor  # (D, R) orthonormal
    null: Tensor  # (D, D - R) orthonormal
    values: Tensor  # (R,) singular values
    noise: float
    """Deviation of the noise in every entry, in units of the singular values."""
    rounding: float
    """Relative error with which the inputs themselves are known."""
    full: bool
    """The inputs fill the space: what is left as null space is only nearly empty."""

    @property
    def rank(self) -> int:
        """Dimensions of the span."""
        return self.basis.shape[1]

    def ratios(self, inputs: Tensor) -> Tensor:
        """Distance of each input (..., D) as a multiple of what noise explains, (...)."""
        inputs = inputs.to(self.basis.dtype)
        size = inputs.norm(dim=-1).clamp_min(1e-30)
        distance = (inputs @ self.null).norm(dim=-1)
        ratios: Tensor = distance / self.explained(inputs @ self.basis).hypot(self.rounding * size)
        return ratios

    def explained(self, coordinates: Tensor) -> Tensor:
        """Distance that noise gives an input with these coordinates (..., R) in the basis."""
        spread: Tensor = (coordinates / self.values).norm(dim=-1)
        return self.noise * math.sqrt(self.null.shape[1]) * spread

    @property
    def widest(self) -> float:
        """No unit vector has more than this explained."""
        weakest = float(self.values[-1]) if self.rank else 1.0
        by_noise = self.noise * math.sqrt(self.null.shape[1]) / weakest
        return math.hypot(min(by_noise, 1.0), self.rounding)


def span_of(
    site: Site, tensors: Mapping[str, Tensor], noise: float | None, drift: float = 0.0,
    lost: float = 1.0,
) -> Span | None:  # fmt: skip
    """The span at a site, or None where its gradients were not shared or are zero.

    `drift` is how far, relatively, weights moved while the update was made, `lost` by how much
    larger the gradient was whose rounding errors these are.
    """
    read = _read(site, tensors)
    if read is None:
        return None
    gradient, rounding = read
    if not noise:
        level = _level(gradient)
        values, vectors = _decompose(level)
        gap = _exact_rank(values, rounding, lost)
        if gap < len(values):
            return _span(values, vectors, gap, len(level), None, max(rounding, drift), False)
    values, vectors = _decompose(gradient)
    rank = noisy_rank(values, len(gradient), noise)
    full = rank >= len(values)
    if full:
        spare = max(1, int(len(values) * SPARE))
        rank = len(values) - spare
    return _span(values, vectors, rank, len(gradient), noise, max(rounding, drift), full)


def rank_of(site: Site, tensors: Mapping[str, Tensor], lost: float = 1.0) -> int:
    """Dimensions of the span at a site, without the span itself, which takes longer."""
    read = _read(site, tensors)
    if read is None:
        return 0
    gradient, rounding = read
    values = torch.linalg.svdvals(_square(_level(gradient)))
    gap = _exact_rank(values, rounding, lost)
    if gap < len(values):
        return gap
    span = span_of(site, tensors, None, lost=lost)
    return 0 if span is None else span.rank


def _read(site: Site, tensors: Mapping[str, Tensor]) -> tuple[Tensor, float] | None:
    """The rows (M, D) of a site's gradient that are not zero, and their relative rounding error."""
    shared = [tensors[name] for name in site.weights if name in tensors]
    parts = [(t.T if site.transposed else t) for t in shared]
    parts = [part for part in parts if bool(part.any())]
    if not parts:
        return None
    gradient = torch.cat(parts).double()
    if not bool(gradient.isfinite().all()):
        raise ValueError(f"the update of {site.weights[0]} has entries that are not finite numbers")
    gradient = completed(gradient)
    return gradient[gradient.any(dim=1)], 2 * float(torch.finfo(parts[0].dtype).eps)


def _level(gradient: Tensor) -> Tensor:
    """Rows of one length: they have equal rounding errors, and the span stays as it is."""
    level: Tensor = gradient / gradient.norm(dim=1, keepdim=True)
    return level


def _exact_rank(values: Tensor, rounding: float, lost: float) -> int:
    """Number of singular values that are no rounding; all of them where none is."""
    least = rounding / 8 if lost == 1.0 else rounding / 4 * lost
    return widest_gap(values, least, EXACT * rounding * lost)


def _decompose(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values (D,) and right vectors (D, D)."""
    _, values, vectors = torch.linalg.svd(_square(gradient))
    return values, vectors.T


def _square(gradient: Tensor) -> Tensor:
    """A matrix (D, D) with the products of all rows (M, D): what QR leaves of many rows."""
    rows, width = gradient.shape
    if rows < width:
        gradient = torch.cat([gradient, gradient.new_zeros(width - rows, width)])
    square: Tensor = torch.linalg.qr(gradient, mode="r").R
    return square


def _span(
    values: Tensor, vectors: Tensor, rank: int, rows: int, noise: float | None,
    rounding: float, full: bool,
) -> Span:  # fmt: skip
    left = len(values) - rank
    measured = float(values[rank:].square().mean().div(rows).sqrt()) if left else 0.0
    return Span(
        basis=vectors[:, :rank].contiguous(),
        null=vectors[:, rank:].contiguous(),
        values=values[:rank],
        noise=measured if noise is None or full else noise,
        rounding=rounding,
        full=full,
    )


def widest_gap(values: Tensor, least: float, level: float) -> int:
    """Number of singular values above the gap, on a log scale, that ends in rounding.

    Rounding is what is below `level` times the largest value; below `least` there are no gaps. All
    values count where none is rounding. Of several gaps the last wide one counts, since rounding
    has none of that width and a token with a faint gradient may stand between two; else the widest.
    """
    logs = values.clamp_min(float(values[0]) * least).log()
    below = values[1:] <= float(values[0]) * level
    if not bool(below.any()):
        return len(values)
    gaps = (logs[:-1] - logs[1:]).where(below, -1.0)
    wide = (gaps >= math.log(WIDE)).nonzero()
    return int(wide[-1] if len(wide) else gaps.argmax()) + 1


def noisy_rank(values: Tensor, rows: int, noise: float | None) -> int:
    """Number of singular values that noise alone would not have made.

    Values of pure noise end at e (√rows + √columns), the edge of Marchenko and Pastur. Where e is
    not known, the rank is the smallest whose remaining values respect the edge of their own e.
    """
    for rank in range(len(values) - max(1, int(len(values) * SPARE))):
        left = len(values) - rank
        deviation = noise or float(values[rank:].square().mean().div(rows).sqrt())
        if float(values[rank]) <= deviation * (math.sqrt(rows) + math.sqrt(left)):
            return rank
    return len(values)
