"""How the first attention of an encoder divides its inputs into queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from submissions.blocks.dager.anatomy import Anatomy, NoAttention, agree

Parts = tuple[Tensor, Tensor, Tensor]
"""Query, key and value of each head, (K, H, d)."""
Division = Callable[[Sequence[Tensor], int], Parts]


def _separate(made: Sequence[Tensor], heads: int) -> Parts:
    """Three projections, as in BERT."""
    query, key, value = (each.view(len(each), heads, -1) for each in made[:3])
    return query, key, value


def _thirds(made: Sequence[Tensor], heads: int) -> Parts:
    """One projection: all queries, then all keys, then all values."""
    query, key, value = made[0].view(len(made[0]), 3, heads, -1).unbind(1)
    return query, key, value


def _by_head(made: Sequence[Tensor], heads: int) -> Parts:
    """One projection: query, key and value of the first head, then of the second."""
    query, key, value = made[0].view(len(made[0]), heads, 3, -1).unbind(2)
    return query, key, value


_DIVISIONS: Mapping[bool, tuple[Division, ...]] = {
    True: (_thirds, _by_head),
    False: (_separate,),
}
"""By whether there is a single projection."""


class Heads:
    """Queries, keys and values as the model makes them, and what it adds to their products."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.anatomy = anatomy
        self.count = int(anatomy.model.config.num_attention_heads)
        self._divide = self._matching()

    def __call__(self, inputs: Tensor) -> Parts:
        """Parts of inputs (K, D)."""
        return self._divide(self._made(inputs), self.count)

    def bias(self, length: int) -> Tensor | None:
        """What an encoder with relative positions adds to its scores, (H, length, length)."""
        encoder = getattr(self.anatomy.body, "encoder", None)
        compute = getattr(encoder, "compute_position_bias", None)
        if compute is None:
            return None
        bias: Tensor = compute(self.anatomy.attend.given.new_zeros(1, length, 1))[0]
        return bias

    def _made(self, inputs: Tensor) -> list[Tensor]:
        return [module(inputs) for module in self.anatomy.attend.modules]

    @torch.inference_mode()
    def _matching(self) -> Division:
        """The division with which dot products give what the model's heads put out."""
        anatomy = self.anatomy
        seen = anatomy.inputs(anatomy.probe, anatomy.behind(True)[:1])[0][0]  # (T, D)
        made = self._made(anatomy.attend.given[0])
        for divide in _DIVISIONS[len(made) == 1] if len(made) in (1, 3) else ():
            if made[0].shape[1] % (self.count * (3 if len(made) == 1 else 1)):
                continue
            out = self._attended(divide(made, self.count)).flatten(1)
            if out.shape == seen.shape and agree(out, seen):
                return divide
        raise NoAttention(f"Attention is more than scaled dot products in {anatomy.kind}.")

    def _attended(self, parts: Parts) -> Tensor:
        """What heads put out for one sentence (T, H, d): the plain formula."""
        query, key, value = (part.transpose(0, 1) for part in parts)  # (H, T, d)
        scores = query @ key.mT * query.shape[-1] ** -0.5
        bias = self.bias(query.shape[1])
        weights = (scores if bias is None else scores + bias).softmax(dim=-1)
        out: Tensor = (weights @ value).transpose(0, 1)
        return out
