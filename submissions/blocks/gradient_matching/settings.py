"""Parameters that all gradient-matching attacks have; each attack puts its own defaults in."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.spec import Parameter, Scalar

QUICK_STEPS = 400
"""Steps of the `quick` variants: a fifth of the papers', which small models forgive."""

Settings = Mapping[str, Scalar]


def descent_parameters(
    steps: int, learning_rate: float, decay: float = 1.0
) -> Mapping[str, Parameter]:
    """Settings of the continuous steps with an attack's own defaults."""
    return {
        "steps": Parameter(steps, "Continuous optimization steps.", low=1),
        "learning_rate": Parameter(learning_rate, "Learning rate of the optimizer.", low=0),
        "decay": Parameter(decay, "Factor on the learning rate at each decay.", low=0, high=1),
        "decay_every": Parameter(50, "Steps from one decay to the next.", low=1),
        "optimizer": Parameter(
            "adam",
            "adam, or adamw with weight decay 0.01 and a linear schedule (BERT large).",
            choices=("adam", "adamw"),
        ),
        "horizon": Parameter(10_000, "Steps to the end of adamw's linear schedule.", low=1),
        "clip": Parameter(0.0, "Largest norm of the embeddings' gradient; 0: any.", low=0),
        "labels": Parameter(
            "auto",
            "auto: as granted, else tried one by one where few, else optimized; for language "
            "models the tokens that the embeddings suggest. optimized: free label logits (DLG).",
            choices=("auto", "optimized"),
        ),
        "simulate_steps": Parameter(
            False, "Match a weight difference by simulating its local steps instead of as a batch."
        ),
        "memory_mb": Parameter(
            0, "Memory for candidates and joint snapshots; 0: 1 GiB, on a GPU half of it.", low=0
        ),
    }
