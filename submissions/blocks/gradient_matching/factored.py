"""Inner products and norms of matrices that are never written out.

With the factors of a gradient g, ⟨g, G⟩ = Σ (left G) ∘ right, and its squared norm is
Σ (left leftᵀ) ∘ (right rightᵀ). An observed gradient G is a sum of outer products, too, of as few
as the private batch has tokens, unless a defense has put noise on it; ⟨g, G⟩ then costs no more
than the norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from submissions.blocks.gradient_matching.pieces import MatrixPiece, Table

_EXACT = 1e-5
"""Share of an observed gradient's norm that its outer products may miss."""
_SPARE = 2
"""Outer products beyond the number of tokens, which make finding the others exact."""
_LANES = 16
"""Numbers that a processor multiplies at once: products of a multiple of them are twice as fast."""


@dataclass(frozen=True)
class Thin:
    """Observed gradients of a matrix as sums of few outer products."""

    left: Tensor  # (P, r, a)
    right: Tensor  # (P, r, b)

    def __getitem__(self, problems: Tensor) -> Thin:
        return Thin(self.left[problems], self.right[problems])


def thin(value: Tensor, tokens: int) -> Thin | None:
    """Observed gradients (P, a, b) as outer products, where so many tokens explain them.

    A random projection finds the row space of a matrix of low rank (Halko et al., 2011, algorithm
    4.1). None where that misses something, as it does under noise, or where it saves nothing.
    """
    rows, columns = value.shape[1:]
    rank = -(-(tokens + _SPARE) // _LANES) * _LANES
    if rank * (rows + columns) >= rows * columns:
        return None
    generator = torch.Generator().manual_seed(0)
    probes = torch.randn(columns, rank, generator=generator).to(value)
    basis = torch.linalg.qr(value @ probes).Q  # (P, a, r)
    right = basis.mT @ value  # (P, r, b)
    missed = (value - basis @ right).flatten(1).norm(dim=1)  # (P,)
    if bool((missed > _EXACT * value.flatten(1).norm(dim=1)).any()):
        return None
    return Thin(basis.mT.contiguous(), right)


class Factored(MatrixPiece):
    """g = leftᵀ right; the target is a matrix."""

    inner: Tensor  # (P, K, n, b), left G

    def __init__(self, places: Sequence[int], target: Tensor) -> None:
        super().__init__(places)
        self.target = target  # (P, a, b)

    def measure(self, table: Table) -> tuple[Tensor, Tensor]:
        """⟨g, G⟩ and ‖g‖²."""
        left, right = (table.factors[place] for place in self.places)
        self.inner = (left.flatten(1, 2) @ self.target).view_as(right)
        return (self.inner * right).sum(dim=(2, 3))[None], square(self, table)[None]

    def derive(self, table: Table, first: Tensor, second: Tensor) -> None:
        """Of the inner product: right Gᵀ and left G."""
        left, right = (table.factors[place] for place in self.places)
        outside = (right.flatten(1, 2) @ self.target.mT).view_as(left)
        add_square(self, table, second[0], [first[0] * outside, first[0] * self.inner])


class Thinned(MatrixPiece):
    """g = leftᵀ right; the target is a sum of few outer products."""

    inners: list[Tensor]  # left leftᵣᵀ and right rightᵣᵀ, both (P, K n, r)

    def __init__(self, places: Sequence[int], target: Thin) -> None:
        super().__init__(places)
        self.rows = (target.left, target.right)

    def measure(self, table: Table) -> tuple[Tensor, Tensor]:
        """⟨g, G⟩ and ‖g‖²."""
        factors = [table.factors[place] for place in self.places]
        pairs = zip(factors, self.rows, strict=True)
        self.inners = [factor.flatten(1, 2) @ rows.mT for factor, rows in pairs]
        dots = (self.inners[0] * self.inners[1]).sum(dim=2)  # (P, K n)
        return dots.view(factors[0].shape[:3]).sum(dim=2)[None], square(self, table)[None]

    def derive(self, table: Table, first: Tensor, second: Tensor) -> None:
        """Of the inner product: (right rightᵣᵀ) leftᵣ and (left leftᵣᵀ) rightᵣ."""
        changes = []
        for place, inner, rows in zip(self.places, reversed(self.inners), self.rows, strict=True):
            factor = table.factors[place]
            weights = first[0] * inner.view(*factor.shape[:3], -1)  # (P, K, n, r)
            changes.append((weights.flatten(1, 2) @ rows).view_as(factor))
        add_square(self, table, second[0], changes)


def square(piece: MatrixPiece, table: Table) -> Tensor:
    """‖leftᵀ right‖² from the Gram matrices, (P, K)."""
    left, right = (table.gram(place) for place in piece.places)
    return (left * right).sum(dim=(2, 3))


def add_square(piece: MatrixPiece, table: Table, weight: Tensor, changes: Sequence[Tensor]) -> None:
    """Add the changes and those of ‖g‖², 2 (right rightᵀ) left and 2 (left leftᵀ) right."""
    for place, other, change in zip(piece.places, reversed(piece.places), changes, strict=True):
        weights = (weight * table.gram(other)).flatten(0, 1)  # (P K, n, n)
        change.flatten(0, 1).baddbmm_(weights, table.factors[place].flatten(0, 1), alpha=2)
        table.add(place, change)
