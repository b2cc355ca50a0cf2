"""Which vocabulary entries can stand at which positions: the check on the first attention's input.

That input is a normalized sum of word and position. Its products with a few directions q of the
null space need no input to be built: with y = (e + p - mean) / deviation,

    q·x = ((g∘q)·e + (g∘q)·p - mean Σ g∘q) / deviation + q·b,

and the deviation needs one product e·p of all words with all positions. Whatever such a sketch
shows to be outside is outside, so only survivors are built and checked exactly. Where noise lets
more of them survive than there are words, the same is done with all directions instead, written as

    |A x|² = |A(g∘e) + A(g∘p)|² / deviation² + 2 (A(g∘e) + A(g∘p))·Ab / deviation + |Ab|²

for e and p without their means: words and positions go through A once, and not their pairs.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Sequence
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
_AT_ONCE = 1 << 13
"""Words that are computed with at once."""


@dataclass(frozen=True)
class Candidates:
    """Vocabulary entries that may stand at positions, best first at each position."""

    positions: Tensor  # (K,)
    tokens: Tensor  # (K,)
    ratios: Tensor  # (K,) distance as a multiple of what noise explains

    def and_also(self, others: Candidates) -> Candidates:
        """These and others."""
        return Candidates(
            torch.cat([self.positions, others.positions]),
            torch.cat([self.tokens, others.tokens]),
            torch.cat([self.ratios, others.ratios]),
        )


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

    def squares(self, places: Sequence[int], directions: Tensor | None) -> Tensor:
        """Squared length of every input's part along directions (D, S), or of all of it, (P, V).

        In double precision, and as exact as if every input had been built.
        """
        here = self.places[list(places)]
        parts = [self._squares(here, words, directions) for words in self.words.split(_AT_ONCE)]
        return torch.cat(parts, dim=1)

    def _squares(self, places: Tensor, words: Tensor, directions: Tensor | None) -> Tensor:
        def along(rows: Tensor) -> Tensor:
            return rows if directions is None else rows @ directions

        places, words, norm = places.double(), words.double(), self.norm
        if norm is None:
            return _sums(along(places), along(words))
        if norm.centered:
            places, words = (rows - rows.mean(1, keepdim=True) for rows in (places, words))
        scale = (_sums(places, words) / words.shape[1] + norm.epsilon).rsqrt()
        gain, bias = norm.gain.double(), along(norm.bias.double())
        places, words = along(places * gain), along(words * gain)
        linear = (places @ bias)[:, None] + words @ bias
        whole = _sums(places, words) * scale.square() + 2 * linear * scale + bias.square().sum()
        return whole.clamp_min(0.0)

    @property
    def longest(self) -> float:
        """No input is longer than this."""
        if self.norm is None:
            return float(self.words.norm(dim=1).max() + self.places.norm(dim=1).max())
        gain, bias = self.norm.gain, self.norm.bias
        return float(gain.abs().max() * self.words.shape[1] ** 0.5 + bias.norm())


def _sums(places: Tensor, words: Tensor) -> Tensor:
    """Squared length of the sum of each row of one (P, D) with each of the other (V, D), (P, V)."""
    squares = places.square().sum(1)[:, None] + words.square().sum(1)
    return squares + 2 * places @ words.T


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
    if len(tokens) > len(inputs.words):
        every = ratios_of_all(inputs, span, range(len(inputs.places)))
        ratios = every[positions, tokens]
    else:
        ratios = span.ratios(inputs.build(tokens, positions))
    kept = ratios <= limit
    return Candidates(positions[kept], tokens[kept], ratios[kept])


def closest(
    inputs: FirstInputs, span: Span, places: Sequence[int], words: Tensor, most: int
) -> Candidates:
    """At each of some places the `most` words (W,) that are least outside the span."""
    if not places:
        return Candidates(words[:0], words[:0], span.null.new_zeros(0))
    ratios, best = ratios_of_all(inputs, span, places)[:, words].sort(dim=1)  # (P, W)
    at = torch.tensor(places, device=words.device)[:, None].expand(-1, min(most, len(words)))
    return Candidates(at.flatten(), words[best[:, :most]].flatten(), ratios[:, :most].flatten())


def ratios_of_all(inputs: FirstInputs, span: Span, places: Sequence[int]) -> Tensor:
    """Distance of every word at some places as a multiple of what noise explains, (P, V)."""
    distance = inputs.squares(places, span.null)
    spread = inputs.squares(places, span.basis / span.values)
    explained = span.noise**2 * span.null.shape[1] * spread
    known = explained + span.rounding**2 * inputs.squares(places, None)
    return (distance / known.clamp_min(1e-300)).sqrt()
