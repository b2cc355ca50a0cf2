"""Inner products with the targets, and squared norms, of the gradients of all layers in one go.

The cosine and the squared L2 distance need no more than these. With factors of the gradient,
⟨g, G⟩ = Σ (left G) ∘ right and ‖g‖² = Σ (left leftᵀ) ∘ (right rightᵀ). An observed gradient is a
sum of outer products, too, of as few as the private batch has tokens, unless a defense has put
noise on it; ⟨g, G⟩ then costs no more than ‖g‖².

Autograd would record a dozen operations a layer and take twice the products that are needed. Here
it sees one operation for all layers, with the derivatives written out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from submissions.blocks.gradient_matching.gradients import Gradient, Outer, Paired

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


def products(
    gradients: Sequence[Gradient], targets: Sequence[Tensor | Thin]
) -> tuple[Tensor, Tensor]:
    """⟨g, G⟩ and ‖g‖² of L parameters, both (L, P, K), differentiable in all factors."""
    parts = [tuple(vars(gradient).values()) for gradient in gradients]
    factors = {id(factor): factor for each in parts for factor in each}
    places = {key: place for place, key in enumerate(factors)}
    plan = [
        _piece(gradient, [places[id(factor)] for factor in each], target)
        for gradient, each, target in zip(gradients, parts, targets, strict=True)
    ]
    found: tuple[Tensor, Tensor] = _Products.apply(plan, *factors.values())  # type: ignore[no-untyped-call]
    return found


class _Products(torch.autograd.Function):
    """All layers at once; a factor that several layers share is passed once."""

    @staticmethod
    def forward(context: Any, plan: Sequence[_Piece], *factors: Tensor) -> tuple[Tensor, Tensor]:
        table = _Table(factors)
        found = [piece.products(table) for piece in plan]
        context.plan, context.table = plan, table
        return torch.stack([dot for dot, _ in found]), torch.stack([square for _, square in found])

    @staticmethod
    @once_differentiable
    def backward(context: Any, dots: Tensor, squares: Tensor) -> tuple[Tensor | None, ...]:
        table = context.table
        for piece, dot, square in zip(context.plan, dots, 2 * squares, strict=True):
            piece.derive(table, dot[..., None, None], square[..., None, None])
        return None, *table.derivatives


class _Table:
    """The factors, their Gram matrices and the derivatives found so far."""

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


class _Piece(ABC):
    """One parameter: where its factors are, and its targets."""

    def __init__(self, places: Sequence[int], target: Any) -> None:
        self.places = places
        self.target = target

    @abstractmethod
    def products(self, table: _Table) -> tuple[Tensor, Tensor]:
        """⟨g, G⟩ and ‖g‖², both (P, K)."""

    @abstractmethod
    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        """Add dot · ∂⟨g, G⟩ + square / 2 · ∂‖g‖² to the factors' derivatives."""


class _Entries(_Piece):
    """A gradient that is written out, entry by entry: ∂⟨g, G⟩ = G and ∂‖g‖² = 2 g."""

    value: Tensor  # (P, K, 1, a) of a vector, (P, K, a, b) of a matrix

    @abstractmethod
    def written(self, table: _Table) -> Tensor:
        """The gradient."""

    def products(self, table: _Table) -> tuple[Tensor, Tensor]:
        self.value = self.written(table)
        target = self.target.view(len(self.value), 1, *self.value.shape[2:])
        return (self.value * target).sum(dim=(2, 3)), self.value.square().sum(dim=(2, 3))

    def change(self, dot: Tensor, square: Tensor) -> Tensor:
        """The derivative in the gradient, shaped like it."""
        target = self.target.view(len(self.value), 1, *self.value.shape[2:])
        return torch.addcmul(square * self.value, dot, target)


class _Total(_Entries):
    """g = Σ left."""

    def written(self, table: _Table) -> Tensor:
        return table.factors[self.places[0]].sum(dim=2, keepdim=True)

    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        table.add(self.places[0], self.change(dot, square))


class _Paired(_Entries):
    """g = Σ left ∘ right."""

    def written(self, table: _Table) -> Tensor:
        left, right = (table.factors[place] for place in self.places)
        return (left * right).sum(dim=2, keepdim=True)

    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        change = self.change(dot, square)
        for place, other in zip(self.places, reversed(self.places), strict=True):
            table.add(place, change * table.factors[other])


class _Written(_Entries):
    """g = leftᵀ right of so many tokens that writing it out is the smaller work."""

    def written(self, table: _Table) -> Tensor:
        left, right = (table.factors[place] for place in self.places)
        return left.mT @ right

    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        left, right = (table.factors[place] for place in self.places)
        change = self.change(dot, square)
        table.add(self.places[0], right @ change.mT)
        table.add(self.places[1], left @ change)


class _Factored(_Piece):
    """g = leftᵀ right, never written out; the target is."""

    inner: Tensor  # (P, K n, b), left G

    def products(self, table: _Table) -> tuple[Tensor, Tensor]:
        left, right = (table.factors[place] for place in self.places)
        self.inner = (left.flatten(1, 2) @ self.target).view_as(right)
        return (self.inner * right).sum(dim=(2, 3)), self.square(table)

    def square(self, table: _Table) -> Tensor:
        """From the Gram matrices."""
        left, right = (table.gram(place) for place in self.places)
        return (left * right).sum(dim=(2, 3))

    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        left, right = (table.factors[place] for place in self.places)
        outside = (right.flatten(1, 2) @ self.target.mT).view_as(left)
        self.add(table, square, dot * outside, dot * self.inner)

    def add(self, table: _Table, square: Tensor, *changes: Tensor) -> None:
        """What the inner product says, and 2 (right rightᵀ) left and 2 (left leftᵀ) right."""
        for place, other, change in zip(self.places, reversed(self.places), changes, strict=True):
            factor = table.factors[place]
            weights = (square * table.gram(other)).flatten(0, 1)  # (P K, n, n)
            change.flatten(0, 1).baddbmm_(weights, factor.flatten(0, 1))
            table.add(place, change)


class _Thinned(_Factored):
    """The same with targets that are sums of few outer products."""

    inners: list[Tensor]  # each (P, K n, r): left leftᵣᵀ, right rightᵣᵀ

    def products(self, table: _Table) -> tuple[Tensor, Tensor]:
        factors = [table.factors[place].flatten(1, 2) for place in self.places]
        few = (self.target.left, self.target.right)
        self.inners = [factor @ rows.mT for factor, rows in zip(factors, few, strict=True)]
        dots = (self.inners[0] * self.inners[1]).sum(dim=2)  # (P, K n)
        shape = table.factors[self.places[0]].shape[:3]
        return dots.view(shape).sum(dim=2), self.square(table)

    def derive(self, table: _Table, dot: Tensor, square: Tensor) -> None:
        few = (self.target.left, self.target.right)
        factors = [table.factors[place] for place in self.places]
        changes = [
            (dot * inner.view(*factor.shape[:3], -1)).flatten(1, 2) @ rows
            for factor, inner, rows in zip(factors, reversed(self.inners), few, strict=True)
        ]
        self.add(table, square, *(c.view_as(f) for c, f in zip(changes, factors, strict=True)))


def _piece(gradient: Gradient, places: Sequence[int], target: Tensor | Thin) -> _Piece:
    """How the products of one parameter are computed with the least work."""
    if not isinstance(gradient, Outer):
        return (_Paired if isinstance(gradient, Paired) else _Total)(places, target)
    if isinstance(target, Thin):
        return _Thinned(places, target)
    tokens, rows, columns = *gradient.left.shape[-2:], gradient.right.shape[-1]
    written = tokens * (rows + columns) >= rows * columns
    return (_Written if written else _Factored)(places, target)
