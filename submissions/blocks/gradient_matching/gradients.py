"""The gradient of one parameter, for many candidates at once, without writing it out if possible.

A weight's gradient is a sum of outer products over the tokens, g = Σₙ leftₙ ⊗ rightₙ, for instance
of output gradients and inputs of a linear layer. Inner products and norms follow from the factors:
⟨g, G⟩ = Σ (left G) ∘ right and ‖g‖² = Σ (left leftᵀ) ∘ (right rightᵀ).

Dimensions: L parameters of one shape, P problems (each with a target of its own), K candidates of
each problem, n tokens of a candidate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor


class Gradient(ABC):
    """Gradients of L parameters of one shape for every candidate of every problem."""

    @abstractmethod
    def dot(self, target: Tensor) -> Tensor:
        """Inner product with each problem's target (L, P, *shape), (L, P, K)."""

    def square(self, kept: Tensor | None = None) -> Tensor:
        """Squared norm, of the kept entries where a mask (L, P, 1, *shape) is given, (L, P, K)."""
        if kept is None:
            return self.whole_square()
        return (self.dense() * kept).square().flatten(3).sum(dim=3)

    @abstractmethod
    def whole_square(self) -> Tensor:
        """Squared norm of all entries, (L, P, K)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The gradients themselves, (L, P, K, *shape)."""


@dataclass(frozen=True)
class Dense(Gradient):
    """Gradients that are there anyway, such as those of biases."""

    value: Tensor  # (L, P, K, *shape)

    def dot(self, target: Tensor) -> Tensor:
        """Entry by entry."""
        return (self.value * target[:, :, None]).flatten(3).sum(dim=3)

    def whole_square(self) -> Tensor:
        """Entry by entry."""
        return self.value.square().flatten(3).sum(dim=3)

    def dense(self) -> Tensor:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Outer(Gradient):
    """Gradients of matrices as sums of outer products over tokens."""

    left: Tensor  # (L, P, K, n, a)
    right: Tensor  # (L, P, K, n, b)

    def dot(self, target: Tensor) -> Tensor:
        """Σ (left G) ∘ right, or Σ left ∘ (right Gᵀ), whichever has the smaller result."""
        tokens = self.left.shape[:4]
        left, right = self.left.flatten(2, 3), self.right.flatten(2, 3)  # (L, P, K n, ·)
        if left.shape[-1] < right.shape[-1]:
            products = (right @ target.mT) * left
        else:
            products = (left @ target) * right
        return products.sum(dim=3).view(tokens).sum(dim=3)

    def whole_square(self) -> Tensor:
        """Σ (left leftᵀ) ∘ (right rightᵀ)."""
        products = (self.left @ self.left.mT) * (self.right @ self.right.mT)  # (L, P, K, n, n)
        return products.flatten(3).sum(dim=3)

    def dense(self) -> Tensor:
        """leftᵀ right."""
        return self.left.mT @ self.right


def outer(left: Tensor, right: Tensor) -> Gradient:
    """The cheaper form: factors, unless so many tokens make the Gram matrices the larger work."""
    tokens, rows, columns = left.shape[3], left.shape[4], right.shape[4]
    factors = Outer(left, right)
    return factors if tokens * (rows + columns) < rows * columns else Dense(factors.dense())
