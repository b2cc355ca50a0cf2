"""The folder that holds a task's public weights, with a fresh head where the task wants one."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmark.errors import UserError
from benchmark.paths import cache_directory
from tasks.models.digests import model_digest
from tasks.models.loading import freeze_to_buffers, load_weights, quiet, roles
from tasks.models.references import builtin_names, locate

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from benchmark.suites import Task

__all__ = ["builtin_names", "locate", "materialise", "model_digest"]

_RECIPE = "1"
"""Changes when heads are drawn differently, so that old folders are not taken for new ones."""

_checked: dict[str, bool] = {}
"""Whether embeddings are tied, by digest and objective."""


def materialise(task: Task) -> Path:
    """The folder with the exact weights of a task: the source itself, or a cached copy with a head.

    The head depends on `task.head_seed` alone, not on global random state or thread count.
    """
    source = locate(task.model)
    folder = source if task.head == "trained" else _with_fresh_head(source, task)
    _check_tied(folder, task)
    return folder


def _with_fresh_head(source: Path, task: Task) -> Path:
    if task.objective != "classification" or task.labels < 1:
        raise UserError(
            f"Task {task.name} asks for a fresh head but is no classification task with labels."
        )
    what = f"{_RECIPE} {model_digest(source)} {task.labels} {task.head_seed}"
    key = hashlib.sha256(what.encode()).hexdigest()[:24]
    target = cache_directory() / "models" / key
    if not target.is_dir():
        _write(source, target, task)
    return target


def _write(source: Path, target: Path, task: Task) -> None:
    """Build next to the target and rename, so that a half-written model is never seen."""
    target.parent.mkdir(parents=True, exist_ok=True)
    model, report = load_weights(
        source,
        "classification",
        torch.float32,
        num_labels=task.labels,
        ignore_mismatched_sizes=True,
    )
    draw_head(model, set(report["missing_keys"]), task.head_seed)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        save_weights(model, scratch)
        copy_tokenizer(source, scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, and wrote the same
            raise
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


def _check_tied(folder: Path, task: Task) -> None:
    """A task states whether its embeddings are tied; the loaded model has the last word."""
    key = f"{model_digest(folder)} {task.objective}"
    if key not in _checked:
        model, _ = load_weights(folder, task.objective, torch.float32)
        freeze_to_buffers(model)
        _checked[key] = roles(model).tied
    if _checked[key] != task.tied:
        words = ("tied", "not tied") if _checked[key] else ("not tied", "tied")
        raise UserError(
            f"The embeddings of {task.model} are {words[0]}, but task {task.name} says they are "
            f"{words[1]}; set tied={_checked[key]} in the task."
        )
