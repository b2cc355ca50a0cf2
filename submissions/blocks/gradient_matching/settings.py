"""Parameters that all gradient-matching attacks have; each attack puts its own defaults in."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.spec import Parameter, Scalar

Settings = Mapping[str, Scalar]

ADAPTED: Settings = {"zeros": "skipped", "answer": "best"}
"""What we add to the papers' attacks: the `adapted` variants, and the `quick` ones too."""
QUICK: Settings = {**ADAPTED, "steps": 400}
"""A fifth of the papers' steps, which small models forgive."""


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
        "zeros": Parameter(
            "matched",
            "Zeros of a sparse update: matched, as in the papers, or skipped, since a defense may "
            "have put them there.",
            choices=("matched", "skipped"),
        ),
        "answer": Parameter(
            "last",
            "The last point, as in the papers, or the best since the last change of order.",
            choices=("last", "best"),
        ),
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
