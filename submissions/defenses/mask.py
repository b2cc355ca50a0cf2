"""Gradient masking: entries of the update are dropped at random."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmark.spec import Defense, Parameter, Update
from submissions.blocks.noise import uniform_like


class Mask(Defense):
    """Zeroes each entry independently (LAMP, appendix C.2; the grid is a guess)."""

    name = "mask"
    summary = "Zeroes entries of the update at random."
    paper = (
        "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
    )
    parameters = {
        "ratio": Parameter(
            0.5, "share of entries that is zeroed", 0.0, 1.0, grid=(0.1, 0.3, 0.5, 0.7, 0.9)
        )
    }

    def transform(self, update: Update, generator: torch.Generator) -> Update:
        """Every entry survives with the same probability."""
        ratio = float(self.settings["ratio"])
        tensors = {}
        for name, tensor in update.tensors.items():
            tensors[name] = tensor.where(uniform_like(tensor, generator) >= ratio, 0.0)
        return replace(update, tensors=tensors)
