"""Gaussian noise on every entry of the update, without clipping."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from benchmark.spec import Defense, Parameter, Update
from submissions.blocks.noise import normal_like


class GaussianNoise(Defense):
    """The defense of LAMP's table 5; it bounds no sample's share, so it proves no ε."""

    name = "gaussian_noise"
    summary = "Adds Gaussian noise to every entry of the update."
    paper = (
        "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
    )
    parameters = {
        "sigma": Parameter(
            0.01, "standard deviation of the noise", 0.0, grid=(0.001, 0.002, 0.005, 0.01)
        )
    }

    def transform(self, update: Update, generator: torch.Generator) -> Update:
        """Noise of the same scale on all tensors, said so on the update."""
        sigma = float(self.settings["sigma"])
        tensors = {}
        for name, tensor in update.tensors.items():
            tensors[name] = tensor + sigma * normal_like(tensor, generator)
        scale = math.hypot(update.noise_scale or 0.0, sigma)
        return replace(update, tensors=tensors, noise_scale=scale)
