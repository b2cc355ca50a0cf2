"""Draws fresh classification heads and writes prepared weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmark.files import naming
from benchmark.ownership import staging_folder
from tasks.models.digests import publish
from tasks.models.loading import load_weights
from tasks.models.tokenizers import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from benchmark.suites import Task


def write_with_head(source: Path, target: Path, task: Task) -> None:
    """A copy of the weights with the head that a task asks for.

    Build next to the target and rename, so that a half-written model is never seen.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    model, report = load_weights(
        source,
        "classification",
        torch.float32,
        num_labels=task.labels,
        ignore_mismatched_sizes=True,
    )
    draw_head(model, set(report["missing_keys"]), task.head_seed)
    scratch = staging_folder()
    try:
        with naming(target):
            save_weights(model, scratch)
            copy_tokenizer(source, scratch)
            publish(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def draw_head(model: PreTrainedModel, missing: set[str], seed: int) -> None:
    """Draw what lies outside the body, and what the body's files lacked, from one generator."""
    generator = torch.Generator().manual_seed(seed)
    body = {id(parameter) for parameter in model.base_model.parameters()}
    deviation = float(getattr(model.config, "initializer_range", 0.02))
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if id(parameter) in body and name not in missing:
                continue
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)


def save_weights(model: PreTrainedModel, folder: Path) -> None:
    """`config.json` and `model.safetensors`, free of anything that varies between machines."""
    with quiet():
        model.save_pretrained(str(folder), max_shard_size="100GB")
    for weights in folder.glob("*.safetensors"):
        weights.chmod(0o644)  # safetensors lets only its owner read, a sandbox need not be it
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("transformers_version", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def copy_tokenizer(source: Path, folder: Path) -> None:
    """The tokenizer's files as they are, so that no library version rewrites them."""
    for pattern in ("tokenizer*.json", "special_tokens_map.json", "added_tokens.json",
                    "vocab.*", "merges.txt", "*.spm", "*.model"):  # fmt: skip
        for path in source.glob(pattern):
            shutil.copyfile(path, folder / path.name)
