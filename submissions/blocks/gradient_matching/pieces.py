"""What measuring one parameter's gradient has to work with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor


class Table:
    """The factors of all gradients, their Gram matrices and the derivatives found so far."""

    def __init__(self, factors: Sequence[Tensor]) -> None:
        self.factors = factors  # (P, K, n, ·)
        self.grams: dict[int, Tensor] = {}
        self.derivatives: list[Tensor | None] = [None] * len(factors)

    def gram(self, place: int) -> Tensor:
        """Inner products between the tokens of a candidate, (P, K, n, n)."""
        if place not in self.grams:
            factor = self.factors[place]
            self.grams[place] = factor @ factor.mT
        return self.grams[place]

    def add(self, place: int, derivative: Tensor) -> None:
        """One more part of a factor's derivative, (P, K, n, ·), or (P, K, 1, ·) for all tokens."""
        before = self.derivatives[place]
        if before is not None:
            before += derivative
        elif derivative.shape == self.factors[place].shape:
            self.derivatives[place] = derivative
        else:
            self.derivatives[place] = derivative.expand_as(self.factors[place]).clone()


class Piece(ABC):
    """The gradients of L parameters that are measured together."""

    @abstractmethod
    def measure(self, table: Table) -> tuple[Tensor, Tensor]:
        """Their two numbers, both (L, P, K)."""

    @abstractmethod
    def derive(self, table: Table, first: Tensor, second: Tensor) -> None:
        """Add their derivatives, weighted by those of the two numbers, both (L, P, K, 1, 1)."""


class MatrixPiece(Piece):
    """One matrix, g = leftᵀ right."""

    def __init__(self, places: Sequence[int]) -> None:
        """`places` of both factors in the table."""
        self.places = places
