"""Words without order, put in the order that a language model finds likeliest.

Reading every partial sentence of a search takes a large language model minutes, so it reads every
pair of words once; whole sentences are put together from pairs, and it chooses among the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from benchmark.spec import Prior

WIDTH = 16
"""Partial sentences kept for each that the language model reads in the end."""


def ordered_by_prior(prior: Prior, types: Sequence[int], size: int, beams: int) -> list[int]:
    """A sentence of `size` tokens that uses every type once before any twice, by beam search."""
    first = prior.negative_log_likelihood([[t] for t in types]).double().cpu()  # (T,)
    pairs = prior.negative_log_likelihood(list(product(types, repeat=2))).double().cpu()
    after = 2.0 * pairs.view(len(types), -1) - first[:, None]  # (T, T): of the second, read first
    whole = _search(first, after, size, WIDTH * beams)[:beams]
    sentences = [[types[place] for place in row] for row in whole.tolist()]
    return sentences[int(prior.negative_log_likelihood(sentences).argmin())]


def _search(first: Tensor, after: Tensor, size: int, width: int) -> Tensor:
    """The likeliest sentences by their pairs, best first, as places among the types, (N, size)."""
    count = len(first)
    costs, rows = first, torch.arange(count)[:, None]  # (N,), (N, L)
    for _ in range(1, size):
        uses = torch.nn.functional.one_hot(rows, count).sum(1)  # (N, T)
        spare = uses.min(dim=1, keepdim=True).values
        longer = (costs[:, None] + after[rows[:, -1]]).masked_fill(uses > spare, float("inf"))
        order = longer.flatten().argsort(stable=True)[: min(width, int(longer.isfinite().sum()))]
        costs = longer.flatten()[order]
        rows = torch.cat([rows[order // count], order[:, None] % count], dim=1)
    return rows[costs.argsort(stable=True)]
