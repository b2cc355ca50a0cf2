"""How words and positions become the input of the first attention, read off one forward pass.

The hypothesis is y = s e + p + c, normalized or not: a word's embedding e times a factor, the
embedding p of its position and a constant c, such as that of the first token type. It is checked
against what the model really computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from submissions.blocks.dager.anatomy import Anatomy, NoAttention, agree
from submissions.blocks.dager.trace import Lookup


@dataclass(frozen=True)
class Norm:
    """y ∘ gain + bias of a y with unit mean square, its mean taken off first where `centered`."""

    gain: Tensor  # (D,)
    bias: Tensor  # (D,)
    epsilon: float
    centered: bool

    def __call__(self, sums: Tensor) -> Tensor:
        """Normalize (..., D) in its own precision."""
        if self.centered:
            sums = sums - sums.mean(dim=-1, keepdim=True)
        scale = (sums.square().mean(dim=-1, keepdim=True) + self.epsilon).rsqrt()
        normal: Tensor = sums * scale * self.gain.to(sums) + self.bias.to(sums)
        return normal


@dataclass(frozen=True)
class Entry:
    """What the first attention reads of a word at a place."""

    words: Tensor  # (V, D) scaled
    places: Tensor  # (P, D) with the constant; one row where places are not told apart here
    norm: Norm | None

    @property
    def has_places(self) -> bool:
        """Whether a word is read differently from place to place."""
        return len(self.places) > 1


@torch.inference_mode()
def entry_of(anatomy: Anatomy, positions: int) -> Entry:
    """The entry of a model for so many positions; raises `NoAttention` where it has another."""
    seen, ids = anatomy.seen, anatomy.probe
    given = anatomy.attend.given  # (1, T, D)
    norms = [n for n in seen.normalizations if torch.equal(n.made, given)]
    sums = norms[-1].given if norms else given
    table: Tensor = anatomy.body.get_input_embeddings().weight.detach()
    if table.shape[1] != anatomy.width:
        raise NoAttention(f"Words are projected before they are read in {anatomy.kind}.")
    tables = [look for look in seen.lookups if look.table.shape[1] == anatomy.width]
    others = [look for look in tables if look.table.data_ptr() != table.data_ptr()]
    rest, places = _added(others, ids.shape[1], positions, table)
    words = table * _factor(sums[0] - rest, table[ids[0]])
    if not agree(words[ids[0]] + rest, sums[0]):
        raise NoAttention(f"The attention reads more than words and positions in {anatomy.kind}.")
    norm = _norm(norms[-1].module, sums, given, anatomy.kind) if norms else None
    return Entry(words, places, norm)


def _added(
    lookups: list[Lookup], tokens: int, positions: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """What is added to the words of the probe (T, D), and to words at all positions (P, D)."""
    rest, places = like.new_zeros(tokens, like.shape[1]), like.new_zeros(1, like.shape[1])
    for look in lookups:
        rows = look.rows.expand(1, tokens)[0] if look.rows.dim() < 3 else look.rows.flatten()
        if len(rows) != tokens:
            continue
        rest = rest + look.table[rows]
        counted = bool((rows == rows[0] + torch.arange(tokens, device=rows.device)).all())
        places = places + look.table[int(rows[0]) :][: positions if counted else 1]
    return rest, places


def _factor(given: Tensor, words: Tensor) -> float:
    """Of the words, as Gemma's are scaled: 1 where that is what rounding hides."""
    factor = float((given * words).sum() / words.square().sum())
    return 1.0 if abs(factor - 1.0) < 1e-4 else factor


def _norm(module: nn.Module, given: Tensor, made: Tensor, kind: str) -> Norm:
    """The formula among those known that does what the module did."""
    for norm in _norms(module, given):
        if agree(norm(given), made):
            return norm
    raise NoAttention(f"{type(module).__name__} is a normalization of another kind in {kind}.")


def _norms(module: nn.Module, given: Tensor) -> Iterator[Norm]:
    """With and without the mean, and with Gemma's gain, which counts from 1."""
    nothing = torch.zeros_like(given.flatten(0, -2)[0])
    stored = dict(module.named_parameters(recurse=False))
    gain, bias = stored.get("weight", nothing + 1.0).detach(), stored.get("bias", nothing).detach()
    names = ("eps", "variance_epsilon", "epsilon")
    epsilons = [getattr(module, name) for name in names if hasattr(module, name)]
    epsilon = float(epsilons[0] or torch.finfo(given.dtype).eps) if epsilons else 0.0
    yield Norm(gain, bias, epsilon, centered=True)
    yield Norm(gain, bias, epsilon, centered=False)
    yield Norm(gain + 1.0, bias, epsilon, centered=False)
