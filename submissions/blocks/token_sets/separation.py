"""Tell the rows of present tokens from those of absent ones in a tied embedding gradient.

Where input and output embeddings are one matrix, row v of its gradient is

    sum over positions t of (p_t(v) - [v is the target at t]) h_t  +  the input part of token v,

so every row is filled. But the rows of absent tokens are combinations of the hidden states h_t
alone: they span as many dimensions as the batch has positions. Whatever sticks out of that span
has an input part, and its token is in the batch. That is exact while there are fewer positions
than dimensions; beyond that only the size of a row is left to go by.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 1e-11
"""Share of the largest eigenvalue below which a direction is rounding noise of single precision."""


def present_rows(gradient: Tensor, at_most: int) -> Tensor:
    """Numbers of the rows that stand out of a tied gradient (V, D), at most so many."""
    filled = gradient.any(dim=1).nonzero().flatten()
    if not len(filled):
        return filled
    rows = gradient[filled].double()
    outside = outside_the_bulk(rows, at_most)
    return filled[stand_out(rows.norm(dim=1) if outside is None else outside, at_most)]


def outside_the_bulk(rows: Tensor, at_most: int) -> Tensor | None:
    """Share of each row, none of them zero, outside the span of the many small rows, (V,).

    A share, since the rows of absent tokens differ in size by orders of magnitude, and rounding
    grows with size. None where that span fills the whole space: then nothing sticks out of it.
    """
    order = rows.norm(dim=1).argsort(descending=True)
    bulk = rows[order[min(4 * at_most, len(order) // 2) :]]  # present tokens are among the largest
    sizes = bulk.norm(dim=1, keepdim=True)
    bulk = bulk / sizes  # (N, D), every row counts alike
    values, directions = torch.linalg.eigh(bulk.T @ bulk)
    span = directions[:, values > ROUNDING * values.max()]  # (D, R)
    if span.shape[1] >= rows.shape[1]:
        return None
    rest = rows - (rows @ span) @ span.T
    share: Tensor = rest.norm(dim=1) / rows.norm(dim=1)
    return share


def stand_out(values: Tensor, at_most: int) -> Tensor:
    """Positions of the values above the widest gap, on a log scale, among the largest ones."""
    order = values.argsort(descending=True)
    top = values[order[: at_most + 1]].clamp_min(1e-30).log()  # (K + 1,)
    gaps = top[:-1] - top[1:]  # (K,)
    return order[: int(gaps.argmax()) + 1] if len(gaps) else order
