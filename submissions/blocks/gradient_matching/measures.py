"""The two numbers that a distance takes of every parameter's gradient, for all layers in one go.

Autograd would record a dozen operations a layer. Here it sees one for all layers, with derivatives
that are written out; a Gram matrix of an input that several layers share is made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from submissions.blocks.gradient_matching.entries import (
    Measure,
    OuterEntries,
    PairedEntries,
    Products,
    Target,
    TotalEntries,
)
from submissions.blocks.gradient_matching.factored import Factored, Thin, Thinned
from submissions.blocks.gradient_matching.gradients import Gradient, Outer, Paired
from submissions.blocks.gradient_matching.pieces import Piece, Table


def measured(
    gradients: Sequence[Gradient], targets: Sequence[Target | Thin], how: Measure
) -> tuple[Tensor, Tensor]:
    """Both numbers of L parameters, (L, P, K), differentiable in all factors.

    A target is thin only where inner products are measured.
    """
    parts = [tuple(vars(gradient).values()) for gradient in gradients]
    factors = {id(factor): factor for each in parts for factor in each}
    places = {key: place for place, key in enumerate(factors)}
    plan = [
        _piece(gradient, [places[id(factor)] for factor in each], target, how)
        for gradient, each, target in zip(gradients, parts, targets, strict=True)
    ]
    found: tuple[Tensor, Tensor] = _Measured.apply(plan, *factors.values())  # type: ignore[no-untyped-call]
    return found


def _piece(gradient: Gradient, places: Sequence[int], target: Target | Thin, how: Measure) -> Piece:
    """How one parameter is measured with the least work."""
    if isinstance(target, Thin):
        return Thinned(places, target)
    if not isinstance(gradient, Outer):
        return (PairedEntries if isinstance(gradient, Paired) else TotalEntries)(
            places, target, how
        )
    tokens, rows, columns = *gradient.left.shape[-2:], gradient.right.shape[-1]
    by_products = isinstance(how, Products) and target.kept is None
    if by_products and tokens * (rows + columns) < rows * columns:
        return Factored(places, target.value)
    return OuterEntries(places, target, how)


class _Measured(torch.autograd.Function):
    """All parameters at once; a factor that several of them share is passed once."""

    @staticmethod
    def forward(context: Any, plan: Sequence[Piece], *factors: Tensor) -> tuple[Tensor, Tensor]:
        table = Table(factors)
        found = [piece.measure(table) for piece in plan]
        context.plan, context.table = plan, table
        return torch.stack([one for one, _ in found]), torch.stack([two for _, two in found])

    @staticmethod
    @once_differentiable
    def backward(context: Any, first: Tensor, second: Tensor) -> tuple[Tensor | None, ...]:
        table: Table = context.table
        for piece, one, two in zip(context.plan, first, second, strict=True):
            piece.derive(table, one[..., None, None], two[..., None, None])
        return None, *table.derivatives
