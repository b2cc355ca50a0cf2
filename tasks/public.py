"""The public half of a task, which workers use: models, roles, objectives and priors.

Must not import `tasks.corpora`: inside the sandbox there is no such folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from benchmark.files import naming
from benchmark.ownership import staging_folder
from benchmark.spec import Batch, Objective
from tasks.models.digests import publish, verify_checksum
from tasks.models.loading import load_weights, open_model, roles
from tasks.models.priors import open_prior, self_prior
from tasks.models.tokenizers import open_tokenizer
from tasks.objectives import OBJECTIVES

__all__ = [
    "batch",
    "objective",
    "open_model",
    "open_prior",
    "roles",
    "self_prior",
    "verify_checksum",
    "warm_up",
    "write_view",
]

COMMON = {
    "gpt2-scratch": "causal-lm",
    "bert-cola": "classification",
    "marian-scratch": "translation",
}
"""Built-in models of the architectures that most jobs open."""


def warm_up() -> None:
    """Open the common kinds of model once: what transformers prepares for it outlives a fork."""
    weights = Path(__file__).parent / "models" / "weights"
    for name, kind in COMMON.items():
        load_weights(weights / name, kind, torch.float32)
        open_tokenizer(weights / name).tokenize("A word.")


def write_view(directory: Path, target: Path, objective: str, values: Mapping[str, Tensor]) -> None:
    """A copy of a model folder in which the named parameters have other values."""
    from tasks.models.heads import copy_tokenizer, save_weights

    model, _ = load_weights(directory, objective, torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in values:
                parameter.copy_(values[name])
    scratch = staging_folder()
    try:
        with naming(target):
            save_weights(model, scratch)
            copy_tokenizer(directory, scratch)
            publish(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def objective(name: str) -> Objective:
    """An objective by the name that the task gives."""
    return OBJECTIVES[name]


def batch(tensors: Mapping[str, Tensor]) -> Batch:
    """A batch from tensors by field name, as snapshots store it."""
    return Batch(**tensors)
