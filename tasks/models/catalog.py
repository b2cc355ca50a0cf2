"""The builtin models as rows for `leakboard list models`; reads small files, imports no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from tasks.models.resolve import WEIGHTS, builtin_names


@dataclass(frozen=True)
class ModelInfo:
    """What a reader wants to know about a model before using it."""

    name: str
    """As in a task: `builtin:<name>`."""
    architecture: str
    parameters: int
    vocabulary: int
    tied: bool
    checkpoint: str
    """How the weights came about."""
    training_text: str
    licence: str
    """Whose text the weights were learned from, with its licence."""
    size_mb: float
    scores: tuple[tuple[str, str, float, float], ...]
    """(corpus, metric, trained, untrained) on test splits."""


def models() -> tuple[ModelInfo, ...]:
    """All builtin models by name."""
    return tuple(model_info(name) for name in builtin_names())


def model_info(name: str) -> ModelInfo:
    """One builtin model, from the `metrics.json` that its training wrote."""
    folder = WEIGHTS / name
    try:
        facts = json.loads((folder / "metrics.json").read_text("utf-8"))
        return ModelInfo(
            name=f"builtin:{name}",
            architecture=facts["architecture"],
            parameters=facts["parameters"],
            vocabulary=facts["vocabulary"],
            tied=facts["tied"],
            checkpoint=facts["checkpoint"],
            training_text=facts["training_text"],
            licence=facts["licence"],
            size_mb=folder_mb(folder),
            scores=tuple(
                (s["corpus"], s["metric"], s["trained"], s["untrained"]) for s in facts["scores"]
            ),
        )
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{folder / 'metrics.json'} is missing or damaged; run "
            f"`python -m tasks.models.train --only {name}`."
        ) from error


def folder_mb(folder: Path) -> float:
    """Megabytes of all files of a model."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6
