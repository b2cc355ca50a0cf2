"""How far a candidate's gradient is from the observed one: DLG, TAG and the cosine of LAMP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from submissions.blocks.gradient_matching.entries import Differences, Measure, Products

_TINY = 1e-30
"""Keeps the norm of a vanishing gradient differentiable."""
_NEGLIGIBLE = 1e-9
"""A target this much smaller than the largest is rounding noise, whose direction says nothing."""


class Distance(ABC):
    """A loss that is put together from one term a parameter."""

    measure: ClassVar[Measure] = Products()
    """Which two numbers of a gradient g, beside its target G, a term is made of."""

    @abstractmethod
    def terms(self, first: Tensor, second: Tensor, norms: Tensor, factors: Tensor) -> Tensor:
        """Terms (L, P, K) from both numbers, from ‖G‖, (L, P, 1), and weights of the L1 term,
        (L, 1, 1)."""

    def total(self, terms: Tensor, norms: Tensor) -> Tensor:
        """Loss of each candidate, (P, K), from all terms (L, P, K) and ‖G‖, (L, P, 1)."""
        return terms.sum(dim=0)


class SquaredL2(Distance):
    """Σᵢ ‖gᵢ - Gᵢ‖² (Zhu et al., Deep Leakage from Gradients, equation 3)."""

    def terms(self, first: Tensor, second: Tensor, norms: Tensor, factors: Tensor) -> Tensor:
        """‖g‖² - 2 ⟨g, G⟩ + ‖G‖²."""
        return second - 2 * first + norms.square()


@dataclass(frozen=True)
class L2L1(Distance):
    """Σᵢ ‖gᵢ - Gᵢ‖² + α fᵢ ‖gᵢ - Gᵢ‖₁ (LAMP, section 4.2, after Deng et al., TAG).

    The papers print ‖·‖₂ without a square. DLG, which TAG extends, squares it, and so do the public
    implementations for which α and the weights of LAMP were tuned, hence the default.
    """

    alpha: float
    squared: bool = True
    measure: ClassVar[Measure] = Differences()

    def terms(self, first: Tensor, second: Tensor, norms: Tensor, factors: Tensor) -> Tensor:
        """Both norms of the difference; the factor is the weight f of the parameter's layer."""
        square = first if self.squared else (first + _TINY).sqrt()
        return square + self.alpha * factors * second


class Cosine(Distance):
    """1 - (1/l) Σᵢ cos(gᵢ, Gᵢ) (LAMP, section 4.2, after Geiping et al.), i over the tensors."""

    def terms(self, first: Tensor, second: Tensor, norms: Tensor, factors: Tensor) -> Tensor:
        """The cosine of each parameter."""
        return first / norms.clamp_min(_TINY) * (second + _TINY).rsqrt()

    def total(self, terms: Tensor, norms: Tensor) -> Tensor:
        """One minus the mean over the parameters whose target has a direction at all."""
        informative = (norms > _NEGLIGIBLE * norms.amax(dim=0)).to(norms.dtype)  # (L, P, 1)
        weights = (informative / informative.sum(dim=0)).to(terms.dtype)
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
