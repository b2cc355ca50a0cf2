"""What is left of an update once the sentences that were read are taken out of it.

A batch's gradient is the mean of its sentences' own, and the model is public: the gradient of a
sentence that was read exactly is computed, for every label that it may have, and subtracted. What
is left has fewer tokens, so its spans exclude more, and the other sentences are found sooner. A
label is believed when the rank falls with it; where none lowers the rank (dropout, several local
steps, a changed gradient), nothing is taken out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchmark.spec import Batch, Client, Observation, Public, Update
from submissions.blocks.dager.anatomy import Site
from submissions.blocks.dager.spans import rank_of

FALL = 0.5
"""Dimensions that have to go with a sentence, for each of its tokens."""


@dataclass(frozen=True)
class Remainder:
    """An update without some of its sentences."""

    observation: Observation
    lost: float = 1.0
    """How much larger the whole gradient was: its rounding errors are as large as before."""
    rank: int | None = None
    """Of the judge's span, where it is known."""


class Peeling:
    """Takes sentences out of the updates of one task."""

    def __init__(self, public: Public, sites: Sequence[Site]) -> None:
        self.public = public
        self.judge = sites[-1]
        """Where tokens are told apart by their sentences, so that none share dimensions."""
        self.names = [name for site in sites for name in site.weights]
        model: Any = public.model
        self.labels = int(getattr(model.config, "num_labels", 0))
        self.client = Client(model, public.objective, public.roles, torch.Generator())

    def without(
        self, before: Remainder, sentences: Sequence[Sequence[int]], batch: int
    ) -> Remainder | None:
        """What is left without sentences of a batch, or None where one cannot be taken out."""
        left: Remainder | None = before
        for ids in sentences:
            left = None if left is None else self._without(left, tuple(ids), batch)
        return left

    def _without(self, before: Remainder, ids: tuple[int, ...], batch: int) -> Remainder | None:
        tensors = before.observation.update.tensors
        shared = [name for name in self.names if name in tensors]
        rank = before.rank
        if rank is None:
            rank = rank_of(self.judge, tensors, before.lost)
        highest = rank - FALL * len(ids)
        best: tuple[int, float, Mapping[str, Tensor]] | None = None
        for label in range(self.labels):
            own = self._gradient(ids, label, shared)
            rest = {name: tensors[name] - own[name] / batch for name in shared}
            lost = before.lost * _size(tensors, shared) / max(_size(rest, shared), 1e-300)
            lost = max(lost, 1.0)
            rank = rank_of(self.judge, rest, lost)
            if rank <= highest and (best is None or rank < best[0]):
                best = rank, lost, rest
        if best is None:
            return None
        rank, lost, tensors = best
        return Remainder(_smaller(before.observation, tensors, len(ids)), lost, rank)

    def _gradient(self, ids: tuple[int, ...], label: int, names: list[str]) -> dict[str, Tensor]:
        device = self.public.device
        with torch.inference_mode(mode=False), torch.enable_grad():
            words = torch.tensor([ids], device=device)
            batch = Batch(words, torch.ones_like(words), torch.tensor([label], device=device))
            return self.client.gradient(batch, names)


def _size(tensors: Mapping[str, Tensor], names: Sequence[str]) -> float:
    return math.sqrt(sum(float(tensors[name].double().square().sum()) for name in names))


def _smaller(before: Observation, rest: Mapping[str, Tensor], length: int) -> Observation:
    """An observation of one sentence less."""
    lengths = None if before.lengths is None else list(before.lengths)
    if lengths is not None and length in lengths:
        lengths.remove(length)
    return replace(
        before,
        update=Update(rest),
        batch_size=before.batch_size - 1,
        lengths=None if lengths is None else tuple(lengths),
    )
