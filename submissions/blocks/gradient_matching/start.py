"""Where a search begins: Gaussian embeddings, the best of several, the best order of those."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from submissions.blocks.gradient_matching.discrete import permutation
from submissions.blocks.gradient_matching.search import Search


def start_gaussian(search: Search) -> None:
    """One standard Gaussian draw, as DLG and TAG begin."""
    search.begin(gaussian(search, None), gaussian_labels(search))


def start_from_best(search: Search, candidates: int, permutations: int, norm: float) -> None:
    """The two-step initialization of LAMP (section 5, experimental setup).

    Every embedding is scaled to the norm before it is scored, so that what is selected is what is
    used; 0 stands for the mean norm of the model's own table, which is where the 1.4 of BERT and
    the 3.98 of GPT-2 come from.
    """
    search.label_logits = gaussian_labels(search)
    best = best_of(search, candidates, lambda: gaussian(search, norm or float(search.mean_norm)))
    if permutations:
        best = best_of(search, permutations, lambda: permuted(search, best))
    search.begin(best, search.label_logits)


def gaussian(search: Search, norm: float | None) -> Tensor:
    """One candidate for each problem, special tokens in place, (P, B, T, D)."""
    drawn = search.fixed.clone()
    for p, generator in enumerate(search.generators):
        for b, places in enumerate(search.places[p]):
            noise = torch.randn(len(places), drawn.shape[-1], generator=generator)
            if norm is not None:
                noise = noise / noise.norm(dim=1, keepdim=True) * norm
            drawn[p, b, places] = noise.to(drawn)
    return drawn


def permuted(search: Search, embeddings: Tensor) -> Tensor:
    """The embeddings with the tokens of every sentence in another order."""
    shuffled = embeddings.clone()
    for p, generator in enumerate(search.generators):
        for b, places in enumerate(search.places[p]):
            order = torch.tensor(permutation(len(places), generator), dtype=torch.long)
            shuffled[p, b, places] = embeddings[p, b, places[order]]
    return shuffled


def best_of(search: Search, count: int, propose: Callable[[], Tensor]) -> Tensor:
    """The proposal whose gradient is nearest to the target, for each problem, (P, B, T, D).

    Fewer are tried where that would take more than half of the time that the harness leaves.
    """
    best = propose()
    losses = search.matcher.losses(search.points(best[:, None]), differentiable=False)[:, 0]
    size = search.matcher.candidates_at_once(search.budget)
    for first in range(1, count, size):
        if search.clock.is_up(search.clock.total / 2):
            break
        several = torch.stack([propose() for _ in range(first, min(count, first + size))], dim=1)
        found = search.matcher.losses(search.points(several), differentiable=False)  # (P, K)
        smallest, which = found.min(dim=1)
        better = smallest < losses
        selected = several[torch.arange(len(several), device=which.device), which]
        best = torch.where(better[:, None, None, None], selected, best)
        losses = torch.where(better, smallest, losses)
    return best


def gaussian_labels(search: Search) -> Tensor | None:
    """Start of optimized label logits, as in DLG, or None where labels are not optimized."""
    samples = search.matcher.samples
    if not samples.optimized_labels:
        return None
    logits = search.fixed.new_zeros(len(search.problems), *samples.label_shape())
    for p, generator in enumerate(search.generators):
        for b, length in enumerate(search.problems[p].lengths):
            part = logits[p, b, :length] if logits.dim() == 4 else logits[p, b]
            part.copy_(torch.randn(part.shape, generator=generator))
    return logits
