"""The folder that holds a task's public weights, with a fresh head where the task wants one.

What was prepared and checked before is found by digest, so planning imports no torch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.errors import UserError
from benchmark.paths import cache_directory
from tasks.models.digests import model_digest, verify_checksum
from tasks.models.form import model_form
from tasks.models.resolve import builtin_names, locate

if TYPE_CHECKING:
    from benchmark.suites import Task

__all__ = ["builtin_names", "locate", "materialize", "model_digest"]

_RECIPE = "2"
"""Changes when folders are made differently, so that old ones are not taken for new ones."""


def materialize(task: Task) -> Path:
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
        from tasks.models.heads import write_with_head

        write_with_head(source, target, task)
    return verify_checksum(target)


def _check_tied(folder: Path, task: Task) -> None:
    """A task states whether its embeddings are tied; the loaded model has the last word."""
    tied = model_form(folder, task.objective).roles.tied
    if tied != task.tied:
        words = ("tied", "not tied") if tied else ("not tied", "tied")
        raise UserError(
            f"The embeddings of {task.model} are {words[0]}, but task {task.name} says they are "
            f"{words[1]}; set tied={tied} in the task."
        )
