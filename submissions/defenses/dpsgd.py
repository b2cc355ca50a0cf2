"""DP-SGD: each sample's gradient is clipped, and noise hides what any one of them contributed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from benchmark.spec import Batch, Budget, Client, Defense, Parameter, Unsupported, Update
from submissions.blocks.dp.accounting import epsilon, noise_multiplier
from submissions.blocks.dp.per_sample import clipped_sum
from submissions.blocks.noise import normal_like


class DPSGD(Defense):
    """Per-sample gradients and accounting by Opacus.

    ε is that of the task's whole training: its sampling rate, its rounds, its δ. Accounting takes
    batches for random samples, as is usual, though training goes through shuffled sentences. A
    client that takes several local steps makes each of them private and accounts for all.
    """

    name = "dpsgd"
    summary = "Clips each sample's gradient and adds Gaussian noise to their sum."
    paper = "Abadi et al., Deep Learning with Differential Privacy, 2016"
    parameters = {
        "noise_multiplier": Parameter(
            0.5,
            "noise in units of the clipping bound",
            0.0,
            grid=(1e-9, 1e-8, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2),
        ),
        "epsilon": Parameter(
            0.0, "budget that sets the noise instead; 0: not used", 0.0, grid=(1.0, 5.0, 10.0, 15.0)
        ),
        "clip": Parameter(1.0, "largest norm of a sample's gradient", 1e-12),
    }

    def local_update(self, client: Client, batch: Batch, names: Sequence[str]) -> Update:
        """The mean of clipped gradients with noise on it, or several such steps."""
        multiplier = self._multiplier(client)
        clip = float(self.settings["clip"])
        samples = len(batch.labels) // client.local_steps  # of one step

        def gradient(part: Batch, names: Sequence[str]) -> Mapping[str, Tensor]:
            total = clipped_sum(client, part, names, clip)
            spread = multiplier * clip
            return {
                name: (value + spread * normal_like(value, client.generator)) / len(part.labels)
                for name, value in total.items()
            }

        update = client.update(batch, names, gradient)
        scale = multiplier * clip / samples
        if update.kind == "difference":
            scale *= update.learning_rate * math.sqrt(update.local_steps)
        return replace(update, noise_scale=scale, epsilon=self._epsilon(client, multiplier))

    def _multiplier(self, client: Client) -> float:
        target = float(self.settings["epsilon"])
        if target == 0.0:
            return float(self.settings["noise_multiplier"])
        if client.budget is None:
            raise Unsupported("ε says nothing here: the task does not fix how long it trains")
        return noise_multiplier(target, *_schedule(client.budget, client.local_steps))

    def _epsilon(self, client: Client, multiplier: float) -> float | None:
        """None where it is not finite or the task does not declare how long it trains."""
        if client.budget is None:
            return None
        spent = epsilon(multiplier, *_schedule(client.budget, client.local_steps))
        return spent if math.isfinite(spent) else None


def _schedule(budget: Budget, local_steps: int) -> tuple[float, int, float]:
    """Sampling rate, number and δ of the noisy steps."""
    return budget.sampling_rate / local_steps, budget.rounds * local_steps, budget.delta
