"""How far a candidate's gradient is from the observed one: DLG, TAG and the cosine of LAMP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

_TINY = 1e-30
"""Keeps the norm of a vanishing gradient differentiable."""
_NEGLIGIBLE = 1e-9
"""A target this much smaller than the largest is rounding noise, whose direction says nothing."""


@dataclass(frozen=True)
class Target:
    """Observed gradients of L parameters of one shape in P problems."""

    value: Tensor  # (L, P, *shape)
    factors: Tensor  # (L,) weight of the L1 term
    sparse: bool
    """Most entries were set to zero, so that a zero says nothing."""
    norms: Tensor = field(init=False)  # (L, P)
    kept: Tensor | None = field(init=False)  # (L, P, 1, *shape), what a sparse update has left

    def __post_init__(self) -> None:
        kept = (self.value != 0)[:, :, None] if self.sparse else None
        object.__setattr__(self, "norms", self.value.flatten(2).norm(dim=2))
        object.__setattr__(self, "kept", kept)

    def of(self, problems: Tensor) -> Target:
        """The same of some of the problems."""
        return replace(self, value=self.value[:, problems])


class Distance(ABC):
    """A loss that is put together from one term a parameter."""

    @abstractmethod
    def terms(self, gradient: Tensor, target: Target) -> Tensor:
        """Term of each parameter, (L, P, K), from gradients (L, P, K, *shape)."""

    def total(self, terms: Tensor, norms: Tensor) -> Tensor:
        """Loss of each candidate, (P, K), from all terms (L, P, K) and target norms (L, P)."""
        return terms.sum(dim=0)


class ProductDistance(Distance):
    """One that takes no more than inner products and norms."""

    @abstractmethod
    def of_products(self, dots: Tensor, squares: Tensor, norms: Tensor) -> Tensor:
        """Terms from ⟨g, G⟩ and ‖g‖², both (L, P, K), and ‖G‖, (L, P, 1)."""

    def terms(self, gradient: Tensor, target: Target) -> Tensor:
        """Entry by entry; of a sparse update the entries that are left."""
        dots = (gradient * target.value[:, :, None]).flatten(3).sum(dim=3)
        kept = gradient if target.kept is None else gradient * target.kept
        return self.of_products(dots, kept.square().flatten(3).sum(dim=3), target.norms[..., None])


class SquaredL2(ProductDistance):
    """Σᵢ ‖gᵢ - Gᵢ‖² (Zhu et al., Deep Leakage from Gradients, equation 3)."""

    def of_products(self, dots: Tensor, squares: Tensor, norms: Tensor) -> Tensor:
        """‖g‖² - 2 ⟨g, G⟩ + ‖G‖²."""
        return squares - 2 * dots + norms.square()


@dataclass(frozen=True)
class L2L1(Distance):
    """Σᵢ ‖gᵢ - Gᵢ‖² + α fᵢ ‖gᵢ - Gᵢ‖₁ (LAMP, section 4.2, after Deng et al., TAG).

    The papers print ‖·‖₂ without a square. DLG, which TAG extends, squares it, and so do the public
    implementations for which α and the weights of LAMP were tuned, hence the default.
    """

    alpha: float
    squared: bool = True

    def terms(self, gradient: Tensor, target: Target) -> Tensor:
        """Both norms of the difference; the factor is the weight f of the parameter's layer."""
        difference = gradient - target.value[:, :, None]
        if target.kept is not None:
            difference = difference * target.kept
        difference = difference.flatten(3)  # (L, P, K, entries)
        square = difference.square().sum(dim=3)
        first = square if self.squared else (square + _TINY).sqrt()
        return first + self.alpha * target.factors[:, None, None] * difference.abs().sum(dim=3)


class Cosine(ProductDistance):
    """1 - (1/l) Σᵢ cos(gᵢ, Gᵢ) (LAMP, section 4.2, after Geiping et al.), i over the tensors."""

    def of_products(self, dots: Tensor, squares: Tensor, norms: Tensor) -> Tensor:
        """The cosine of each parameter."""
        return dots / norms.clamp_min(_TINY) * (squares + _TINY).rsqrt()

    def total(self, terms: Tensor, norms: Tensor) -> Tensor:
        """One minus the mean over the parameters whose target has a direction at all."""
        informative = (norms > _NEGLIGIBLE * norms.amax(dim=0)).to(norms.dtype)  # (L, P)
        weights = (informative / informative.sum(dim=0))[:, :, None].to(terms.dtype)
        return 1 - (terms * weights).sum(dim=0)


def layer_factors(names: Sequence[str], weighting: str) -> list[float]:
    """Weight of each parameter's L1 term: `none` is 1 throughout, as LAMP runs TAG.

    `linear` falls from 1 at the input to 1/depth at the output: the TAG paper wants layers nearer
    to the input to count more but prints no formula, so the linear fall is a guess.
    """
    if weighting == "none":
        return [1.0] * len(names)
    blocks = [_block(name) for name in names]
    order = list(dict.fromkeys(blocks))
    return [1 - order.index(block) / len(order) for block in blocks]


def _block(name: str) -> str:
    """`bert.encoder.layer.3` of `bert.encoder.layer.3.attention.self.query.weight`."""
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return ".".join(parts[:2])


def stack_target(
    targets: Sequence[Sequence[Tensor]], factors: Sequence[float], sparse: bool
) -> Target:
    """From L parameters of P problems each to one target."""
    value = torch.stack([torch.stack(list(problems)) for problems in targets])
    return Target(value, torch.tensor(factors, dtype=value.dtype, device=value.device), sparse)
