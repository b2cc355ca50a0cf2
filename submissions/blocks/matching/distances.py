"""How far a candidate's gradient is from the observed one: DLG, TAG and the cosine of LAMP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from submissions.blocks.matching.gradients import Gradient

_TINY = 1e-30
"""Keeps the norm of a vanishing gradient differentiable."""
_SILENT = 1e-9
"""A target this much smaller than the largest one is rounding noise, whose direction says nothing."""


class Distance(ABC):
    """A loss that is put together from one term a parameter."""

    writes_gradients = False
    """Whether the terms need gradients written out."""

    @abstractmethod
    def terms(self, gradient: Gradient, target: Tensor, factor: Tensor) -> Tensor:
        """Term of each parameter, (L, P, K), given targets (L, P, *shape) and factors (L,)."""

    def total(self, terms: Tensor, target_norms: Tensor) -> Tensor:
        """Loss of each candidate, (P, K), from all terms (L, P, K) and target norms (L, P)."""
        return terms.sum(dim=0)


class SquaredL2(Distance):
    """Σᵢ ‖gᵢ - Gᵢ‖² (Zhu et al., Deep Leakage from Gradients, equation 3)."""

    def terms(self, gradient: Gradient, target: Tensor, factor: Tensor) -> Tensor:
        """‖g‖² - 2 ⟨g, G⟩ + ‖G‖², which needs no gradient written out."""
        constant = target.square().flatten(2).sum(dim=2)[:, :, None]  # (L, P, 1)
        return gradient.square() - 2 * gradient.dot(target) + constant


@dataclass(frozen=True)
class L2L1(Distance):
    """Σᵢ ‖gᵢ - Gᵢ‖² + α fᵢ ‖gᵢ - Gᵢ‖₁ (LAMP, section 4.2, after Deng et al., TAG).

    The papers print ‖·‖₂ without a square. DLG, which TAG extends, squares it, and so do the public
    implementations for which α and the weights of LAMP were tuned, hence the default.
    """

    alpha: float
    squared: bool = True
    writes_gradients = True

    def terms(self, gradient: Gradient, target: Tensor, factor: Tensor) -> Tensor:
        """Both norms of the difference; `factor` is the weight f of the parameter's layer."""
        difference = (gradient.dense() - target[:, :, None]).flatten(3)  # (L, P, K, entries)
        square = difference.square().sum(dim=3)
        first = square if self.squared else (square + _TINY).sqrt()
        return first + self.alpha * factor[:, None, None] * difference.abs().sum(dim=3)


class Cosine(Distance):
    """1 - (1/l) Σᵢ cos(gᵢ, Gᵢ) (LAMP, section 4.2, after Geiping et al.), i over the tensors."""

    def terms(self, gradient: Gradient, target: Tensor, factor: Tensor) -> Tensor:
        """The cosine of each parameter."""
        length = target.flatten(2).norm(dim=2)[:, :, None]  # (L, P, 1)
        dot = gradient.dot(target / (length[..., None].view(_like(target)) + _TINY))
        return dot * (gradient.square() + _TINY).rsqrt()

    def total(self, terms: Tensor, target_norms: Tensor) -> Tensor:
        """One minus the mean over the parameters whose target has a direction at all."""
        heard = target_norms > _SILENT * target_norms.amax(dim=0)  # (L, P)
        weights = (heard / heard.sum(dim=0))[:, :, None].to(terms.dtype)
        return 1 - (terms * weights).sum(dim=0)


def _like(target: Tensor) -> tuple[int, ...]:
    """Shape (L, P, 1, ...) that broadcasts over the target's entries."""
    return (*target.shape[:2], *(1 for _ in target.shape[2:]))


def layer_factors(names: list[str], weighting: str) -> Tensor:
    """Weight of each parameter's L1 term: `none` is 1 throughout, as LAMP runs TAG.

    `linear` falls from 1 at the input to 1/depth at the output: the TAG paper wants layers nearer to
    the input to count more but prints no formula, so the linear fall is a guess.
    """
    blocks = [_block(name) for name in names]
    order = list(dict.fromkeys(blocks))
    if weighting == "none":
        return torch.ones(len(names))
    return torch.tensor([1 - order.index(block) / len(order) for block in blocks])


def _block(name: str) -> str:
    """`bert.encoder.layer.3` of `bert.encoder.layer.3.attention.self.query.weight`."""
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return ".".join(parts[:2])
