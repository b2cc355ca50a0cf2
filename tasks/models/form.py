"""What can be said of a model without its numbers, remembered so that planning imports no torch."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmark.files import remember, remembered
from benchmark.paths import cache_directory
from benchmark.suites import ModelForm
from tasks.models.digests import model_digest

_RECIPE = "1"
"""Changes when models are opened differently, so that old forms are not taken for new ones."""
_FORM = TypeAdapter(ModelForm)


def model_form(folder: Path, objective: str) -> ModelForm:
    """The form of the model that a folder holds."""
    return _form(model_digest(folder), folder, objective)


@cache
def _form(digest: str, folder: Path, objective: str) -> ModelForm:
    """Read off the loaded model once for all processes, and remembered by its digest."""
    key = hashlib.sha256(f"{_RECIPE} {digest} {objective}".encode()).hexdigest()
    path = cache_directory() / "forms" / f"{key}.json"
    try:
        return _FORM.validate_json(remembered(path))
    except (OSError, ValidationError):
        form = _loaded_form(folder, objective)
        remember(path, _FORM.dump_json(form).decode())
        return form


def _loaded_form(folder: Path, objective: str) -> ModelForm:
    import torch

    from tasks.models.loading import freeze_to_buffers, load_weights
    from tasks.models.roles import roles

    model, _ = load_weights(folder, objective, torch.float32)
    freeze_to_buffers(model)
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    return ModelForm(shapes, roles(model))
