"""How many token types a batch has, told from the weight of the positive component (remark 2).

The attacker makes batches of public text, flattens their gradients as a client's would flatten, and
fits a polynomial from the mixture's weight to the number of types. A batch's gradient is the mean
of its samples' gradients and flattening is linear, so one pass over each public sample serves
batches of every size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark.spec import Batch, Public, Role
from submissions.blocks.output_layer.gradient import candidates
from submissions.blocks.output_layer.mixture import fit_mixture

SENTENCES = (1, 2, 4, 8, 16, 32)
LENGTHS = (25, 50, 100)
"""Shapes of the paper's public batches in language modeling, every size with every length."""
TOKENS = (25, 50, 100, 250, 500, 1000, 1250, 1500, 2000)
"""And of those in translation, by their target tokens."""
CHUNK = 400
"""Tokens to one forward pass."""


@dataclass(frozen=True)
class Sample:
    """One public text as a client would see it."""

    sums: Tensor  # (C,) row sums of its gradient, for the candidate tokens
    types: frozenset[int]
    tokens: int


@dataclass(frozen=True)
class SizeRegressor:
    """A polynomial from φ_p to the number of types."""

    coefficients: NDArray[np.float64]
    low: float
    high: float
    """Weights seen in fitting; outside of them the polynomial goes on along its tangent, but never
    falls, since more types never weigh less."""

    def predict(self, weight: float, most: int) -> int:
        """Types of a batch whose positive component has this weight, at least one."""
        inside = min(max(weight, self.low), self.high)
        slope = max(float(np.polyval(np.polyder(self.coefficients), inside)), 0.0)
        value = float(np.polyval(self.coefficients, inside) + slope * (weight - inside))
        return min(max(round(value), 1), most)


@dataclass(frozen=True)
class PublicBatches:
    """Row sums of public batches, of length 1, and how many types each batch has."""

    sums: Tensor  # (N, C)
    counts: NDArray[np.int64]  # (N,)
    seed: int

    def fit(self, degree: int, tries: int, relative: bool = True) -> SizeRegressor:
        """Least squares of the relative errors: a few large batches must not spoil the many small.

        The paper does not weight errors.
        """
        weights = [fit_mixture(own, self.seed + n, tries).weight for n, own in enumerate(self.sums)]
        coefficients = np.polyfit(
            weights, self.counts, degree, w=1 / self.counts if relative else None
        )
        return SizeRegressor(coefficients, min(weights), max(weights))


def public_batches(public: Public, batches: int, pool: int) -> PublicBatches:
    """So many batches of each of the paper's shapes, made of a pool of public samples."""
    sums, counts = [], []
    for group in _batches(public, batches, pool):
        total = torch.stack([sample.sums for sample in group]).mean(dim=0)
        sums.append(total / total.norm())
        counts.append(len(frozenset().union(*(sample.types for sample in group))))
    return PublicBatches(torch.stack(sums), np.array(counts), public.seed)


def _batches(public: Public, batches: int, pool: int) -> Iterator[list[Sample]]:
    """Batches of every shape, as their samples."""
    draw = random.Random(public.seed)
    if public.sources:
        fewest = 2 * max(TOKENS) // 12  # sentences of a dozen tokens or more fill the largest
        samples = list(
            _samples(public, _pieces(public, None, max(pool, fewest)), public.max_tokens)
        )
        for limit in (t for t in TOKENS for _ in range(batches)):
            yield _filled(draw.sample(samples, len(samples)), limit)
        return
    longest = getattr(public.model.config, "max_position_embeddings", max(LENGTHS))
    for length in (n for n in LENGTHS if n <= longest):
        samples = list(_samples(public, _pieces(public, length, pool), length))
        for size in (n for n in SENTENCES if n <= len(samples)):
            for _ in range(batches):
                yield draw.sample(samples, size)


def _filled(samples: Sequence[Sample], limit: int) -> list[Sample]:
    """As many of the samples as hold so many tokens, one at least."""
    taken, tokens = [samples[0]], samples[0].tokens
    for sample in samples[1:]:
        tokens += sample.tokens
        if tokens > limit:
            break
        taken.append(sample)
    return taken


def _pieces(public: Public, length: int | None, most: int) -> list[tuple[str, str]]:
    """Public texts with their sources; sentences are joined to fill `length` tokens."""
    sources = public.sources or ("",) * len(public.text)
    if length is None:
        return list(zip(public.text, sources, strict=True))[:most]
    pieces: list[tuple[str, str]] = []
    sizes = [len(ids) for ids in public.tokenizer(list(public.text), verbose=False).input_ids]
    parts: list[str] = []
    tokens = 0
    for text, size in zip(public.text, sizes, strict=True):
        parts.append(text)
        tokens += size
        if tokens >= length:
            pieces.append((" ".join(parts), ""))
            parts, tokens = [], 0
    return pieces[:most]


def _samples(
    public: Public, pieces: Sequence[tuple[str, str]], max_tokens: int
) -> Iterator[Sample]:
    together = max(1, CHUNK // max_tokens)
    rows = public.model.get_parameter(public.roles.names[Role.OUTPUT]).shape[0]
    kept = candidates(public, rows)
    for start in range(0, len(pieces), together):
        texts, sources = zip(*pieces[start : start + together], strict=True)
        batch = public.objective.encode(public.tokenizer, texts, None, sources, max_tokens)
        batch = Batch(*(t.to(public.device) for t in vars(batch).values()))
        sums = flattened_gradients(public, batch)[:, kept]  # (B, C)
        for own, labels in zip(sums, batch.labels.tolist(), strict=True):
            targets = [i for i in labels if i >= 0]
            types = frozenset(targets) - public.forbidden_ids
            yield Sample(own, types, len(targets))


# ---------------------------------------------------------------------------- a client's gradient


def flattened_gradients(public: Public, batch: Batch) -> Tensor:
    """Row sums of the output layer's gradient for each sample alone, (B, V).

    The matrix itself is never made: a linear layer with inputs h_t and output gradients g_t has
    the row sums Σ_t (h_t · 1) g_t. Where the matrix is the word embedding too, the sums of the
    embeddings' gradients are added to the rows of their tokens.
    """
    name = public.roles.names[Role.OUTPUT]
    with _recorded(public.model, public.model.get_parameter(name)) as calls:
        losses = public.objective.losses(public.model, batch)  # (B,)
        outputs = [output for _, _, output in calls]
        slopes = torch.autograd.grad(losses.sum(), outputs)
    total = losses.new_zeros(len(losses), public.model.get_parameter(name).shape[0])  # (B, V)
    for (module, given, _), slope in zip(calls, slopes, strict=True):
        if isinstance(module, torch.nn.Embedding):
            total.scatter_add_(1, given, slope.sum(dim=-1))
        else:
            total += torch.einsum("bt,btv->bv", given.sum(dim=-1), slope)
    return total


@contextmanager
def _recorded(
    model: torch.nn.Module, parameter: Tensor
) -> Iterator[list[tuple[torch.nn.Module, Tensor, Tensor]]]:
    """Module, input and output of every use of a parameter as a layer's weight."""
    calls: list[tuple[torch.nn.Module, Tensor, Tensor]] = []

    def record(module: torch.nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((module, given[0].detach(), output))

    users = [m for m in model.modules() if getattr(m, "weight", None) is parameter]
    hooks = [module.register_forward_hook(record) for module in users]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
