"""The bag of words: which tokens occur in a batch, read off the gradient of the word embedding.

A row of the embedding gets a gradient only where its token occurs (FILM, section 4.2). That is
exact while input and output embeddings are two matrices, and pruning only empties some rows. Where
they are one, every row is filled, and `separation.py` tells present tokens from absent ones. Where
noise of a known scale was added, rows that noise alone explains are left out (FILM, section 6.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmark.spec import Observation, Parameter, Role
from submissions.blocks.sentences import sentence_lengths
from submissions.blocks.token_sets.separation import present_rows, stand_out

NOISE_OVER = Parameter(
    "width",
    "d of the noise threshold σ√(2 ln d): the embedding's width, as the paper has it, or all "
    "entries of the matrix, which lets next to no absent token pass.",
    choices=("width", "matrix"),
)
NOTHING_SHARED = "The word-embedding gradient is not shared, so there is no bag of words to read."
NOTHING_LEFT = "The word-embedding gradient shows no token, so the bag of words is empty."


@dataclass(frozen=True)
class Bag:
    """Token types of a batch in no order, and what else the embedding gradients show."""

    types: Tensor
    """Sorted ids, special tokens left out, (M,)."""
    longest: int | None
    """Tokens of the longest sentence with special tokens, where learned positions show it."""
    note: str

    def __len__(self) -> int:
        return len(self.types)


def read_bag(observation: Observation, noise_over: str = "width") -> Bag:
    """The bag of an observed update; empty, with the reason, where there is nothing to read."""
    gradient = observation.gradient(Role.WORD_EMBEDDING)  # (V, D)
    public = observation.public
    if gradient is None:
        return Bag(torch.zeros(0, dtype=torch.long, device=public.device), None, NOTHING_SHARED)
    if not bool(gradient.isfinite().all()):
        raise ValueError("the word-embedding gradient holds NaN or infinite values")
    rows = _rows(gradient, observation, noise_over).tolist()
    types = sorted(set(rows) - public.forbidden_ids)
    longest = longest_sentence(observation)
    note = f"The longest sentence has {longest} tokens." if longest else ""
    found = torch.tensor(types, dtype=torch.long, device=gradient.device)
    return Bag(found, longest, note if types else NOTHING_LEFT)


def longest_sentence(observation: Observation) -> int | None:
    """Tokens of the longest sentence, from the positions that received a gradient."""
    if observation.gradient(Role.POSITION_EMBEDDING) is None:
        return None
    return max(sentence_lengths(replace(observation, lengths=None)))


def _rows(gradient: Tensor, observation: Observation, noise_over: str) -> Tensor:
    """Numbers of the rows whose tokens occur."""
    tied = observation.public.roles.tied
    at_most = observation.batch_size * observation.public.max_tokens
    noise = observation.update.noise_scale or 0.0
    if tied and not noise:
        return present_rows(gradient, at_most)
    dimensions = gradient.shape[1] if noise_over == "width" else gradient.numel()
    peaks = gradient.abs().amax(dim=1)  # (V,)
    rows = (peaks > noise * math.sqrt(2 * math.log(dimensions))).nonzero().flatten()
    if tied and len(rows) > at_most:  # absent tokens that the output layer took for likely
        rows = rows[stand_out(peaks[rows], at_most)]
    return rows
