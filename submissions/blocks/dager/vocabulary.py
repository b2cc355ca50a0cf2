"""Which vocabulary entries can stand at which positions: the check on the first attention's input.

That input is a normalized sum of word and position. Its products with a few directions q of the
null space need no input to be built: with y = (e + p - mean) / deviation,

    q·x = ((g∘q)·e + (g∘q)·p - mean Σ g∘q) / deviation + q·b,

and the deviation needs one product e·p of all words with all positions. Whatever such a sketch
shows to be outside is outside, so only survivors are built and checked exactly.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from submissions.blocks.dager.anatomy import Anatomy
from submissions.blocks.dager.spans import Span

SKETCH = 4
"""Directions of the null space in the sketch."""
SLACK = 2e-5
"""Error of a sketch in single precision, relative to an input's length."""
_AT_ONCE = 1 << 24
"""Numbers that are built at once."""


@dataclass(frozen=True)
class Candidates:
    """Vocabulary entries that may stand at positions, best first at each position."""

    positions: Tensor  # (K,)
    tokens: Tensor  # (K,)
    ratios: Tensor  # (K,) distance as a multiple of what noise explains


class FirstInputs:
    """The inputs of the first attention for every word and position."""

    def __init__(self, anatomy: Anatomy, positions: int) -> None:
        shape = anatomy.shape
        self.words: Tensor = anatomy.body.get_input_embeddings().weight.detach()  # (V, D)
        if shape.position:
            table = anatomy.module(shape.position).weight.detach()
            first = anatomy.body.embeddings.padding_idx + 1 if shape.after_padding else 0
            self.places = table[first:][:positions]  # (P, D)
        else:
            self.places = self.words.new_zeros(1, self.words.shape[1])
        if shape.token_type:
            self.places = self.places + anatomy.module(shape.token_type).weight.detach()[0]
        norm: Any = anatomy.module(shape.norm)
        self.gain: Tensor = norm.weight.detach()
        self.centred = isinstance(norm, nn.LayerNorm)
        self.bias = norm.bias.detach() if self.centred else torch.zeros_like(self.gain)
        self.epsilon = float(norm.eps if self.centred else norm.variance_epsilon)

    def build(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Inputs of pairs of token and position, (K, D), in double precision."""
        sums = self.words[tokens].double() + self.places[positions].double()
        if self.centred:
            sums = sums - sums.mean(dim=-1, keepdim=True)
        scale = (sums.square().mean(dim=-1, keepdim=True) + self.epsilon).rsqrt()
        built: Tensor = sums * scale * self.gain.double() + self.bias.double()
        return built

    def sketch(self, directions: Tensor) -> Tensor:
        """Squared length of each input's part along the directions (D, S), (P, V)."""
        width = self.words.shape[1]
        scaled = self.gain[:, None] * directions  # (D, S)
        cross = self.places @ self.words.T  # (P, V)
        square = self.words.square().sum(1) + self.places.square().sum(1)[:, None] + 2 * cross
        mean = self.words.mean(1) + self.places.mean(1)[:, None] if self.centred else None
        variance = square / width if mean is None else square / width - mean.square()
        scale = (variance + self.epsilon).rsqrt()  # (P, V)
        words, places = self.words @ scaled, self.places @ scaled  # (V, S), (P, S)
        constant, total = self.bias @ directions, scaled.sum(0)  # (S,)
        found = torch.zeros_like(scale)
        for s in range(directions.shape[1]):
            part = words[:, s] + places[:, s, None]
            if mean is not None:
                part = part - mean * total[s]
            found += (part * scale + constant[s]).square()
        return found

    @property
    def longest(self) -> float:
        """No input is longer than this."""
        return float(self.gain.abs().max() * self.words.shape[1] ** 0.5 + self.bias.norm())


def candidates(
    inputs: FirstInputs, span: Span, limit: float, generator: torch.Generator
) -> Candidates:
    """All pairs of position and token whose distance is at most `limit` times what is explained."""
    size = min(SKETCH, span.null.shape[1])
    mix = torch.randn(span.null.shape[1], size, generator=generator, dtype=torch.float64)
    mix = torch.linalg.qr(mix).Q.to(span.null.device)
    directions = (span.null @ mix).to(inputs.words.dtype)
    bound = (limit * span.widest + SLACK) * inputs.longest
    positions, tokens = (inputs.sketch(directions) <= bound**2).nonzero().unbind(1)
    step = max(1, _AT_ONCE // inputs.words.shape[1])
    parts = [
        span.ratios(inputs.build(t, p))
        for t, p in zip(tokens.split(step), positions.split(step), strict=True)
    ]
    ratios = torch.cat(parts) if parts else span.null.new_zeros(0)
    kept = ratios <= limit
    return Candidates(positions[kept], tokens[kept], ratios[kept])
