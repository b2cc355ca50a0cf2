"""The two numbers that a distance takes of every parameter's gradient, for all layers in one go.

Autograd would record a dozen operations a layer. Here it sees one for all layers, with derivatives
that are written out; a Gram matrix of an input that several layers share is made once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from submissions.blocks.gradient_matching.entries import (
    Measure,
    OuterEntries,
    Products,
    Target,
    VectorEntries,
)
from submissions.blocks.gradient_matching.factored import Factored, Thin, Thinned
from submissions.blocks.gradient_matching.gradients import Gradient, Outer
from submissions.blocks.gradient_matching.pieces import MatrixPiece, Piece, Table


def measured(
    gradients: Sequence[Gradient], targets: Sequence[Target | Thin], how: Measure
) -> tuple[Tensor, Tensor]:
    """Both numbers of L parameters, (L, P, K), differentiable in all factors.

    A target is thin only where inner products are measured.
    """
    parts = [tuple(vars(gradient).values()) for gradient in gradients]
    factors = {id(factor): factor for each in parts for factor in each}
    place_of = {key: place for place, key in enumerate(factors)}
    places = [[place_of[id(factor)] for factor in each] for each in parts]
    plan: list[Piece] = []
    order: list[int] = []
    vectors: dict[int, list[tuple[int, Target]]] = defaultdict(list)  # by their length
    for number, (gradient, target) in enumerate(zip(gradients, targets, strict=True)):
        if isinstance(gradient, Outer):
            plan.append(_matrix(gradient, places[number], target, how))
            order.append(number)
        else:
            assert isinstance(target, Target)
            vectors[parts[number][0].shape[-1]].append((number, target))
    for several in vectors.values():
        joined = Target.joined([target for _, target in several])
        plan.append(VectorEntries([places[number] for number, _ in several], joined, how))
        order += [number for number, _ in several]
    found: tuple[Tensor, Tensor] = _Measured.apply(plan, *factors.values())  # type: ignore[no-untyped-call]
    back = torch.tensor(order).argsort().to(found[0].device)
    return found[0].index_select(0, back), found[1].index_select(0, back)


def _matrix(
    gradient: Outer, places: Sequence[int], target: Target | Thin, how: Measure
) -> MatrixPiece:
    """How one matrix is measured with the least work."""
    if isinstance(target, Thin):
        return Thinned(places, target)
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
        context.sizes = [len(one) for one, _ in found]
        return torch.cat([one for one, _ in found]), torch.cat([two for _, two in found])

    @staticmethod
    @once_differentiable
    def backward(context: Any, first: Tensor, second: Tensor) -> tuple[Tensor | None, ...]:
        table: Table = context.table
        weights = (torch.split(each[..., None, None], context.sizes) for each in (first, second))
        for piece, one, two in zip(context.plan, *weights, strict=True):
            piece.derive(table, one, two)
        return None, *table.derivatives
