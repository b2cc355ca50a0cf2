"""What the first layer above the embeddings would read of each word, and what its gradient spans.

The gradient of a linear layer is a sum of outer products with its inputs, so its rows span what the
layer has read, as long as that is less than its width.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmark.spec import Observation, Public

WORDS_AT_ONCE = 4096
FEW_WORDS = 8
"""Enough to see whether a layer reads a word differently at different places."""


@dataclass(frozen=True)
class FirstReading:
    """What one layer would read of every published word, and the span of what it has read."""

    inputs: Tensor
    """(P, V, D): P places, or one where places do not matter."""
    span: Tensor
    """(rank, D), orthonormal rows."""
    note: str

    @property
    def rank(self) -> int:
        """Vectors that the layer has read, as far as they differ."""
        return len(self.span)

    def distances(self) -> Tensor:
        """How far each word is from the span, relative to its length, (P, V)."""
        inside = (self.inputs @ self.span.T).square().sum(dim=2)  # (P, V)
        whole = self.inputs.square().sum(dim=2).clamp_min(1e-20)
        return (1.0 - inside / whole).clamp_min(0.0).sqrt()


def positions_matter(reading: FirstReading) -> bool:
    """Whether the layer reads a word differently at different places."""
    return len(reading.inputs) > 1


def first_reading(observation: Observation, places: int, tolerance: float) -> FirstReading | None:
    """Of the first linear layer whose gradient was shared and does not fill its width."""
    public = observation.public
    layers = {name: m for name, m in public.model.named_modules() if isinstance(m, nn.Linear)}
    order = _order_of_use(public, list(layers.values()))
    names = {id(layer): name for name, layer in layers.items()}
    for layer in order:
        gradient = observation.update.tensors.get(f"{names[id(layer)]}.weight")
        if gradient is None:
            continue
        span = row_space(gradient, tolerance)
        if 0 < len(span) < gradient.shape[1]:
            inputs = _inputs(public, layer, places)
            note = f"The gradient of {names[id(layer)]} spans {len(span)} dimensions."
            return FirstReading(inputs, span, note)
        return None  # what is above it reads mixtures of words
    return None


def row_space(gradient: Tensor, tolerance: float) -> Tensor:
    """An orthonormal basis of the rows, (rank, D), in double precision."""
    _, values, rows = torch.linalg.svd(gradient.double(), full_matrices=False)
    basis: Tensor = rows[values > tolerance * values.max()]
    return basis


@torch.no_grad()
def _order_of_use(public: Public, layers: list[nn.Linear]) -> list[nn.Linear]:
    """The linear layers in the order in which a forward pass comes to them.

    Layers that read one vector of a whole sentence, (B, D), are left out: it is a mixture.
    """
    used: list[nn.Linear] = []

    def keep(layer: nn.Linear, given: tuple[Tensor, ...], output: Tensor) -> None:
        if given[0].ndim == 3:
            used.append(layer)

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    assert public.table is not None
    try:
        _run(public, public.table[:1, None, :])
    finally:
        for hook in hooks:
            hook.remove()
    return used


@torch.no_grad()
def _inputs(public: Public, layer: nn.Linear, places: int) -> Tensor:
    """What the layer reads of each published word at each place, (P, V, D); P is 1 if all agree."""
    assert public.table is not None
    few = _read(public, layer, public.table[:FEW_WORDS], places)  # (P, FEW_WORDS, D)
    needed = 1 if torch.allclose(few[0], few[-1]) else places
    size = max(1, WORDS_AT_ONCE // needed)
    parts = (public.table[first : first + size] for first in range(0, len(public.table), size))
    return torch.cat([_read(public, layer, words, needed) for words in parts], dim=1)


class _ReadEnough(Exception):
    """Ends a forward pass at the layer that was asked for: what is above it does not matter."""


def _read(public: Public, layer: nn.Linear, words: Tensor, places: int) -> Tensor:
    """What the layer reads of words, each repeated at every place, (P, V, D)."""
    read: list[Tensor] = []

    def keep(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        read.append(given[0])
        raise _ReadEnough

    hook = layer.register_forward_pre_hook(keep)
    try:
        with contextlib.suppress(_ReadEnough):
            _run(public, words[:, None, :].expand(-1, places, -1))  # (V, P, D)
    finally:
        hook.remove()
    return read[0].double().transpose(0, 1)


def _run(public: Public, embeddings: Tensor) -> None:
    mask = torch.ones(embeddings.shape[:2], dtype=torch.long, device=embeddings.device)
    public.model(inputs_embeds=embeddings, attention_mask=mask)
