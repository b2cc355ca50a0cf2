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

import torch
from torch import Tensor

from submissions.blocks.dager.anatomy import Anatomy
from submissions.blocks.dager.entry import entry_of
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
        entry = entry_of(anatomy, positions)
        self.words, self.places, self.norm = entry.words, entry.places, entry.norm
        self.has_places = entry.has_places

    def build(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Inputs of pairs of token and position, (K, D), in double precision."""
        sums = self.words[tokens].double() + self.places[positions].double()
        return sums if self.norm is None else self.norm(sums)

    def sketch(self, directions: Tensor) -> Tensor:
        """Squared length of each input's part along the directions (D, S), (P, V)."""
        norm = self.norm
        scaled = directions if norm is None else norm.gain[:, None] * directions  # (D, S)
        words, places = self.words @ scaled, self.places @ scaled  # (V, S), (P, S)
        scale, mean = self._moments()  # (P, V)
        found = self.words.new_zeros(len(places), len(words))
        for s in range(directions.shape[1]):
            part = words[:, s] + places[:, s, None]
            if mean is not None:
                part = part - mean * scaled[:, s].sum()
            if norm is not None:
                part = part * scale + norm.bias @ directions[:, s]
            found += part.square()
        return found

    def _moments(self) -> tuple[Tensor | float, Tensor | None]:
        """Reciprocal deviation of every sum, and its mean where that is taken off, (P, V)."""
        if self.norm is None:
            return 1.0, None
        width = self.words.shape[1]
        square = self.words.square().sum(1) + self.places.square().sum(1)[:, None]
        variance = (square + 2 * self.places @ self.words.T) / width
        mean = self.words.mean(1) + self.places.mean(1)[:, None] if self.norm.centered else None
        if mean is not None:
            variance = variance - mean.square()
        return (variance + self.norm.epsilon).rsqrt(), mean

    @property
    def longest(self) -> float:
        """No input is longer than this."""
        if self.norm is None:
            return float(self.words.norm(dim=1).max() + self.places.norm(dim=1).max())
        gain, bias = self.norm.gain, self.norm.bias
        return float(gain.abs().max() * self.words.shape[1] ** 0.5 + bias.norm())


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
