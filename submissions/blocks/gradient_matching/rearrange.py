"""The discrete phase of LAMP: try the tokens in other orders, ask gradient and language model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf

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
    order whose language term alone is beyond the best score so far cannot win. Orders are tried
    from the most fluent on, a chunk of every problem that has some left at a time, which leaves
    few once a sentence reads well.
    """
    contests = [Contest(values) for values in _language(search, sentence, orders, fluency)]
    while still_open := [p for p, contest in enumerate(contests) if contest.hopeful()]:
        matcher = search.matcher.only(still_open)
        size = matcher.candidates_at_once(search.budget)
        tried = [contests[p].hopeful()[:size] for p in still_open]
        selected = [[orders[p][i] for i in few] for p, few in zip(still_open, tried, strict=True)]
        points = reordered(search, sentence, selected, still_open)
        distances = matcher.losses(points, differentiable=False).tolist()  # (P, K)
        for p, few, values in zip(still_open, tried, distances, strict=True):
            contests[p].judge(few, values)  # rows are filled up with identities
    winners = [[each[contest.winner]] for each, contest in zip(orders, contests, strict=True)]
    _go_on(search, sentence, winners)
    search.settle(torch.tensor([contest.distance for contest in contests]))


class Contest:
    """One problem's orders, of which the language terms are known, and the best of them so far."""

    def __init__(self, language: Sequence[float]) -> None:
        self.language = language
        fluent_first = sorted(range(1, len(language)), key=language.__getitem__)
        self.waiting = [0, *fluent_first]  # the identity stands first
        self.winner, self.score, self.distance = 0, inf, inf

    def hopeful(self) -> list[int]:
        """Orders not tried yet that may still win."""
        return [i for i in self.waiting if self.language[i] < self.score]

    def judge(self, tried: Sequence[int], distances: Sequence[float]) -> None:
        """Take note of the gradient distances of some orders; the first drawn wins a tie."""
        self.waiting = self.waiting[len(tried) :]
        for order, distance in zip(tried, distances, strict=False):
            score = distance + self.language[order]
            if (score, order) < (self.score, self.winner):
                self.winner, self.score, self.distance = order, score, distance


def reordered(
    search: Search, sentence: int, orders: Orders, problems: Sequence[int] | None = None
) -> Points:
    """Every problem's batch, or that of some, with one sentence in each of their orders."""
    which = list(range(len(search.problems))) if problems is None else problems
    index = _index(search, sentence, orders, which)  # (P, K, T)
    rows = torch.arange(len(index), device=index.device)[:, None, None]

    def reorder(values: Tensor) -> Tensor:  # (P, B, T, ·) to (P, K, B, T, ·)
        values = values.detach()[which]
        several = values[:, None].repeat(1, index.shape[1], *(1 for _ in values.shape[1:]))
        several[:, :, sentence] = values[:, sentence][rows, index]
        return several

    logits = search.label_logits
    if logits is None:
        return Points(reorder(search.embeddings))
    if logits.dim() == 4:  # a token's label goes where the token goes
        return Points(reorder(search.embeddings), reorder(logits))
    few = logits.detach()[which][:, None]  # (P, 1, B, classes)
    return Points(reorder(search.embeddings), few.expand(-1, index.shape[1], -1, -1))


def _go_on(search: Search, sentence: int, selected: Orders) -> None:
    """Take the one selected order of each problem."""
    points = reordered(search, sentence, selected)
    logits = points.label_logits
    search.replace(points.embeddings[:, 0], None if logits is None else logits[:, 0])


def _index(search: Search, sentence: int, orders: Orders, problems: Sequence[int]) -> Tensor:
    """Orders of the sought tokens as places to read from, filled up with identities, (P, K, T)."""
    most = max(len(each) for each in orders)
    index = torch.arange(search.layout.mask.shape[2]).repeat(len(orders), most, 1)
    for row, problem, each in zip(index, problems, orders, strict=True):
        places = search.places[problem][sentence]
        if len(places):
            row[: len(each), places] = places[torch.tensor(each, dtype=torch.long)]
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
