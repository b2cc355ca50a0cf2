"""Gradient pruning: only the largest entries of the update leave the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from benchmark.spec import Defense, Parameter, Update


class Prune(Defense):
    """Zeroes the entries of smallest magnitude (Zhu et al., 2019; FILM, section 6.3).

    The papers do not tell whether entries compete within their tensor or over the whole update. The
    first explains why FILM loses no token at 0.99: 1 % of an embedding matrix is more than what a
    batch touches of it.
    """

    name = "prune"
    summary = "Zeroes all but the largest entries of the update."
    paper = "Zhu et al., Deep Leakage from Gradients, 2019"
    parameters = {
        "ratio": Parameter(
            0.99, "share of entries that is zeroed", 0.0, 1.0, grid=(0.9, 0.99, 0.999, 0.9999)
        ),
        "scope": Parameter(
            "tensor", "where entries compete (a guess)", choices=("tensor", "update")
        ),
    }

    def transform(self, update: Update, generator: torch.Generator) -> Update:
        """The same tensors, mostly zero."""
        if self.settings["scope"] == "tensor":
            tensors = {n: self._cut(t, self._threshold({n: t})) for n, t in update.tensors.items()}
        else:
            threshold = self._threshold(update.tensors)
            tensors = {n: self._cut(t, threshold) for n, t in update.tensors.items()}
        return replace(update, tensors=tensors)

    def _threshold(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The smallest magnitude that stays, as a scalar tensor; at least one entry does."""
        magnitudes = torch.cat([tensor.abs().flatten() for tensor in tensors.values()])
        kept = max(1, round(magnitudes.numel() * (1.0 - float(self.settings["ratio"]))))
        return magnitudes.kthvalue(magnitudes.numel() - kept + 1).values

    @staticmethod
    def _cut(tensor: Tensor, threshold: Tensor) -> Tensor:
        return tensor.where(tensor.abs() >= threshold, 0.0)
