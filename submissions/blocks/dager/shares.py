"""Which of the tokens that fit a span are really there, and which belong together.

Word and position add up before they are normalized, so once a batch has words in several places,
many a (word, position) that never occurred is a combination of some that did, and lies in the span
as they do. But the gradient is a sum of few terms, one for each that did occur. Reweighted least
squares (Gorodnitsky and Rao's FOCUSS, here for all rows at once) finds such a sparse sum. Its terms
tell more: the value projection's gradient of a token is what the readers of that token ask of it,
and tokens of one sentence have the same readers, so their terms point the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from submissions.blocks.dager.anatomy import Site
from submissions.blocks.dager.spans import Span

ROUNDS = 40
RIDGE = 1e-12
FAINTEST = 1e-9


@dataclass(frozen=True)
class Shares:
    """The parts of K entries in a gradient."""

    sizes: Tensor  # (K,) the largest is 1
    directions: Tensor  # (K, D) unit vectors; of one sentence alike


def shares_of(site: Site, tensors: Mapping[str, Tensor], span: Span, inputs: Tensor) -> Shares:
    """A sparse sum of terms of the inputs (K, D) that makes up the gradients of a site."""
    parts = [tensors[name].double() for name in site.weights if name in tensors]
    gradient = torch.cat([part.T if site.transposed else part for part in parts])  # (M, D)
    rows = gradient.norm(dim=1, keepdim=True).clamp_min(1e-300)
    known, wanted = inputs @ span.basis, (gradient / rows) @ span.basis  # (K, R), (M, R)
    short = torch.linalg.qr(wanted, mode="r").R  # has the same products as all the rows
    sizes = known.new_ones(len(known))
    for _ in range(ROUNDS):
        terms = sizes[:, None] * (known @ _solve(known, sizes, short.T))  # (K, R)
        sizes = terms.norm(dim=1)
        sizes = (sizes / sizes.max().clamp_min(1e-300)).clamp_min(FAINTEST)
    last = wanted[-len(parts[-1]) :] * rows[-len(parts[-1]) :]  # the value projection's
    terms = known @ _solve(known, sizes, last.T)
    return Shares(sizes, torch.nn.functional.normalize(terms, dim=1))


def _solve(known: Tensor, sizes: Tensor, right: Tensor) -> Tensor:
    products = (known * sizes[:, None]).T @ known  # (R, R)
    products.diagonal().add_(RIDGE * products.diagonal().mean())
    solution: Tensor = torch.linalg.solve(products, right)
    return solution
