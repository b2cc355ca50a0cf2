"""Which vocabulary entries can stand at which positions: the check on the first attention's input.

That input is a normalized sum of word and position. Its products with a few directions q of the
null space need no input to be built: with y = (e + p - mean) / deviation,

    q·x = ((g∘q)·e + (g∘q)·p - mean Σ g∘q) / deviation + q·b,

and the deviation needs one product e·p of all words with all positions. Whatever such a sketch
shows to be outside is outside, so only survivors are built and checked exactly. Where noise lets
nearly everything survive, a finer sketch tells what is closest, and only that is checked.
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
FINER = 48
"""The same where four rule out too little: lengths are off by a tenth."""
CHECKED = 1 << 34
"""Multiplications of exact checks at most, which are seconds of one core."""
CLOSER = 16
"""Entries that are checked exactly, for each of those that are wanted as the closest."""
_AT_ONCE = 1 << 24
"""Numbers that are built at once."""


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
    """All pairs of position and token whose distance is at most `limit` times what is explained.

    Where more than counted work allows for survive the sketches, the closest at each position.
    """
    bound = ((limit * span.widest + SLACK) * inputs.longest) ** 2
    survive = inputs.sketch(_directions(inputs, span, SKETCH, generator)) <= bound  # (P, V)
    width = inputs.words.shape[1]
    most = max(1, CHECKED // (width * width * len(survive)))  # at a position
    if int(survive.sum()) > most * len(survive):
        near = _finely(inputs, span)
        kept = near.topk(min(most, near.shape[1]), dim=1, largest=False)
        survive = torch.zeros_like(survive).scatter(1, kept.indices, kept.values <= bound)
    positions, tokens = survive.nonzero().unbind(1)
    step = max(1, _AT_ONCE // width)
    parts = [
        span.ratios(inputs.build(t, p))
        for t, p in zip(tokens.split(step), positions.split(step), strict=True)
    ]
    ratios = torch.cat(parts) if parts else span.null.new_zeros(0)
    fits = ratios <= limit
    return Candidates(positions[fits], tokens[fits], ratios[fits])


def closest(
    inputs: FirstInputs, span: Span, places: Sequence[int], words: Tensor, most: int
) -> Candidates:
    """At each of some places the `most` words (W,) that are least outside the span."""
    near = _finely(inputs, span)[:, words] if places else words.new_zeros(0, len(words))
    positions, tokens, ratios = [words[:0]], [words[:0]], [span.null.new_zeros(0)]
    for place in places:
        tried = words[near[place].topk(min(CLOSER * most, len(words)), largest=False).indices]
        each = span.ratios(inputs.build(tried, torch.full_like(tried, place)))
        best = each.argsort()[:most]
        positions.append(torch.full_like(best, place))
        tokens.append(tried[best])
        ratios.append(each[best])
    return Candidates(torch.cat(positions), torch.cat(tokens), torch.cat(ratios))


def _finely(inputs: FirstInputs, span: Span) -> Tensor:
    """A finer sketch of every input, (P, V); the same for the same span."""
    return inputs.sketch(_directions(inputs, span, FINER, torch.Generator().manual_seed(0)))


def _directions(inputs: FirstInputs, span: Span, count: int, generator: torch.Generator) -> Tensor:
    """Random directions of the null space, (D, S)."""
    size = min(count, span.null.shape[1])
    mix = torch.randn(span.null.shape[1], size, generator=generator, dtype=torch.float64)
    mix = torch.linalg.qr(mix).Q.to(span.null.device)
    directions: Tensor = (span.null @ mix).to(inputs.words.dtype)
    return directions
