"""The discrete phase of LAMP: try the tokens in other orders, ask gradient and language model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from benchmark.spec import Prior
from submissions.blocks.gradient_matching.discrete import Order, rearrangements
from submissions.blocks.gradient_matching.samples import Points
from submissions.blocks.gradient_matching.search import Search

Orders = Sequence[Sequence[Order]]
"""Orders of one sentence's tokens, for each problem; the identity stands first."""


class Fluency:
    """α_lm L_lm: the prior's negative log-likelihood, asked once a sentence, or nothing at all."""

    def __init__(self, prior: Prior | None, weight: float) -> None:
        self.prior = prior if weight else None
        self.weight = weight
        self.known: dict[tuple[int, ...], float] = {}

    def __call__(self, sentences: Sequence[tuple[int, ...]]) -> list[float]:
        """Weighted mean negative log-likelihood per token of each sentence."""
        if self.prior is None:
            return [0.0] * len(sentences)
        new = [ids for ids in dict.fromkeys(sentences) if ids not in self.known]
        if new:
            values = self.prior.negative_log_likelihood(new).tolist()
            self.known.update(zip(new, values, strict=True))
        return [self.weight * self.known[ids] for ids in sentences]


def rearrange(search: Search, count: int, fluency: Fluency) -> None:
    """Lines 7 to 18 of Algorithm 1, for each sentence of the batch in turn, as time allows."""
    for sentence in range(search.layout.mask.shape[1]):
        if search.clock.is_up():
            return
        orders = [
            rearrangements(len(places[sentence]), count, generator)
            for places, generator in zip(search.places, search.generators, strict=True)
        ]
        choose_order(search, sentence, orders, fluency)


def choose_order(search: Search, sentence: int, orders: Orders, fluency: Fluency) -> None:
    """Go on with the order of smallest L_rec + α_lm L_lm (LAMP, section 4.3).

    The length regularizer is the same for all orders, and no gradient distance is negative. So an
    order whose language term alone is beyond the identity's score cannot win and is not tried,
    which leaves few once a sentence reads well.
    """
    language = _language(search, sentence, orders, fluency)
    distances = _distances(search, sentence, [each[:1] for each in orders])  # (P, 1)
    limits = [distance[0] + values[0] for distance, values in zip(distances, language, strict=True)]
    hopeful = [
        [0, *(i for i in range(1, len(values)) if values[i] < limit)]
        for values, limit in zip(language, limits, strict=True)
    ]
    tried = [[each[i] for i in few] for each, few in zip(orders, hopeful, strict=True)]
    if any(len(each) > 1 for each in tried):
        distances = _distances(search, sentence, tried)
    scores = [
        [distances[p][k] + language[p][i] for k, i in enumerate(few)]
        for p, few in enumerate(hopeful)
    ]
    which = [each.index(min(each)) for each in scores]
    _go_on(search, sentence, [[each[k]] for each, k in zip(tried, which, strict=True)])
    search.settle(torch.tensor([row[k] for row, k in zip(distances, which, strict=True)]))


def reordered(search: Search, sentence: int, orders: Orders) -> Points:
    """Every problem's batch with one sentence in each of the orders."""
    index = _index(search, sentence, orders)  # (P, K, T)
    rows = torch.arange(len(index), device=index.device)[:, None, None]

    def reorder(values: Tensor) -> Tensor:  # (P, B, T, ·) to (P, K, B, T, ·)
        several = values[:, None].repeat(1, index.shape[1], *(1 for _ in values.shape[1:]))
        several[:, :, sentence] = values[:, sentence][rows, index]
        return several

    logits = search.label_logits
    points = search.points(reorder(search.embeddings.detach()))
    if logits is not None and logits.dim() == 4:  # a token's label goes where the token goes
        points = Points(points.embeddings, reorder(logits.detach()))
    return points


def _distances(search: Search, sentence: int, orders: Orders) -> list[list[float]]:
    """L_grad of every order; rows are filled up with the identity's."""
    points = reordered(search, sentence, orders)
    values: list[list[float]] = search.matcher.scores(points, search.budget).tolist()
    return values


def _go_on(search: Search, sentence: int, selected: Orders) -> None:
    """Take the one selected order of each problem."""
    points = reordered(search, sentence, selected)
    logits = points.label_logits
    search.replace(points.embeddings[:, 0], None if logits is None else logits[:, 0])


def _index(search: Search, sentence: int, orders: Orders) -> Tensor:
    """Orders of the sought tokens as places to read from, filled up with identities, (P, K, T)."""
    most = max(len(each) for each in orders)
    index = torch.arange(search.layout.mask.shape[2]).repeat(len(orders), most, 1)
    for p, each in enumerate(orders):
        places = search.places[p][sentence]
        if len(places):
            index[p, : len(each), places] = places[torch.tensor(each, dtype=torch.long)]
    return index.to(search.embeddings.device)


def _language(search: Search, sentence: int, orders: Orders, fluency: Fluency) -> list[list[float]]:
    """α_lm L_lm of every order of every problem: the mean over the batch's sentences."""
    tokens = search.tokens(search.embeddings)
    changed = [
        [tuple(tokens[p][sentence][i] for i in order) for order in each]
        for p, each in enumerate(orders)
    ]
    others = [[tuple(ids) for b, ids in enumerate(rows) if b != sentence] for rows in tokens]
    fluency([*chain(*changed), *chain(*others)])  # one question for all problems
    rest = [sum(fluency(each)) for each in others]
    batch = len(tokens[0])
    return [
        [(value + rest[p]) / batch for value in fluency(each)] for p, each in enumerate(changed)
    ]
