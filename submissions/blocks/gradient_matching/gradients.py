"""The gradient of one parameter, for many candidates at once, in the factors that it is made of.

A weight's gradient is a sum of outer products over the tokens, g = Σₙ leftₙ ⊗ rightₙ, for instance
of output gradients and inputs of a linear layer; that of a bias is a sum of output gradients.

The last two dimensions of a factor are n, the tokens of a candidate, and its entries. In front of
them stand P problems and K candidates of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor


class Gradient(ABC):
    """Gradients of one parameter."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The gradients themselves, (..., *shape)."""

    @abstractmethod
    def square(self) -> Tensor:
        """Squared norms, (...)."""


@dataclass(frozen=True)
class Outer(Gradient):
    """Of a matrix: a sum of outer products."""

    left: Tensor  # (..., n, a)
    right: Tensor  # (..., n, b)

    def dense(self) -> Tensor:
        """leftᵀ right."""
        return self.left.mT @ self.right

    def square(self) -> Tensor:
        """Σ (left leftᵀ) ∘ (right rightᵀ)."""
        products: Tensor = (self.left @ self.left.mT) * (self.right @ self.right.mT)
        return products.sum(dim=(-2, -1))


@dataclass(frozen=True)
class Paired(Gradient):
    """Of the scale of a normalization: a sum of products, entry by entry."""

    left: Tensor  # (..., n, a)
    right: Tensor  # (..., n, a)

    def dense(self) -> Tensor:
        """Σ left ∘ right."""
        return (self.left * self.right).sum(dim=-2)

    def square(self) -> Tensor:
        """Entry by entry."""
        return self.dense().square().sum(dim=-1)


@dataclass(frozen=True)
class Total(Gradient):
    """Of a bias: a sum over the tokens."""

    left: Tensor  # (..., n, a)

    def dense(self) -> Tensor:
        """Σ left."""
        return self.left.sum(dim=-2)

    def square(self) -> Tensor:
        """Entry by entry."""
        return self.dense().square().sum(dim=-1)
