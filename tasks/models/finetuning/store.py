"""Where trained models lie: a folder of the cache that names recipe, base and text by digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from benchmark.errors import UserError, unknown_name
from benchmark.paths import cache_directory
from tasks.models.digests import model_digest, verify_checksum
from tasks.models.finetuning.recipes import (
    RECIPES,
    TrainingRecipe,
    gpt2_shape,
    marian_shape,
)


def locate(name: str) -> Path:
    """The folder of a trained model, checked; one that was not made yet is not made by the way."""
    target = folder(name)
    command = f"`python -m tasks.models.train_open --only {name}`"
    if not target.is_dir():
        raise UserError(
            f"The model trained:{name} has not been made on this machine; run {command}, or "
            "without --only for all of them."
        )
    return verify_checksum(target, f"delete the folder and run {command}")


def find(name: str) -> TrainingRecipe:
    """The recipe of a trained model."""
    if name not in RECIPES:
        raise unknown_name("trained model", name, RECIPES)
    return RECIPES[name]


def folder(name: str) -> Path:
    """Where the model of today's recipe, base and text lies, or would lie."""
    return cache_directory() / "models" / f"trained-{name}-{recipe_digest(find(name))[:12]}"


def recipe_digest(recipe: TrainingRecipe) -> str:
    """Over the recipe, the weights that it starts from and the text that it reads."""
    from tasks import corpora
    from tasks.models.resolve import locate as locate_model

    parts = [asdict(recipe), corpora.digest(recipe.corpus)]
    parts.append(
        model_digest(locate_model(recipe.base)) if recipe.base else marian_shape(recipe, 0)
    )
    if recipe.base and recipe.width:
        parts.append(gpt2_shape(recipe, 0))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
