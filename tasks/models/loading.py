"""Open a model from a folder: safetensors only, nothing unpickled, no remote code, no network."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers

from benchmark.errors import UserError
from tasks.models import bilstm  # noqa: F401 (registers the architecture with transformers)
from tasks.models.roles import roles
from tasks.models.tokenizers import open_tokenizer, quiet, readable, require_folder
from tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["load_weights", "open_model", "roles"]

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def open_model(
    directory: Path, objective: str, precision: str, device: torch.device | str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The complete model in eval mode, every parameter trainable, and its tokenizer.

    Weights that are missing or of another shape are an error here: nothing is ever drawn at
    random. Fresh heads come from `sources.materialize`.
    """
    model, report = load_weights(directory, objective, DTYPES[precision])
    absent = sorted(report["missing_keys"]) + sorted(str(k) for k in report["mismatched_keys"])
    if absent:
        raise UserError(
            f"The weights in {directory} do not fill a model for {objective} "
            f"(missing: {', '.join(absent[:3])}); give the task a fresh head or other weights."
        )
    freeze_to_buffers(model)
    torch.nn.Module.to(model, device)  # transformers' own annotation of `to` is broken
    return model, open_tokenizer(directory)


def load_weights(
    directory: Path, objective: str, dtype: torch.dtype, **configuration: object
) -> tuple[PreTrainedModel, dict[str, set[str]]]:
    """The model of a folder on the CPU, with the report of what its files lacked."""
    require_files(directory)
    auto_class = getattr(transformers, OBJECTIVES[objective].auto_class)
    with quiet(), readable(directory, "weights"):
        model, report = auto_class.from_pretrained(
            str(directory),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            attn_implementation="eager",  # the only attention with second derivatives everywhere
            output_loading_info=True,
            **configuration,
        )
    return model.eval(), report


def require_files(directory: Path) -> None:
    """Emit what is missing before transformers does so at length."""
    require_folder(directory)
    if not (directory / "config.json").is_file():
        raise UserError(f"{directory} is not a model folder: it has no config.json.")
    if not any(directory.glob("*.safetensors")):
        raise UserError(
            f"{directory} holds no .safetensors weights, and Leakboard reads no other kind; "
            "convert them with safetensors first."
        )


def freeze_to_buffers(model: torch.nn.Module) -> None:
    """Turn what the architecture never trains (sinusoidal positions, emit) into buffers.

    `named_parameters` then lists exactly what a client trains and may share. The class name is
    asked too, since loading through transformers 5 forgets that such a table was frozen.
    """
    for module in model.modules():
        fixed = "Sinusoidal" in type(module).__name__
        for name, parameter in list(module.named_parameters(recurse=False)):
            if fixed or not parameter.requires_grad:
                delattr(module, name)
                module.register_buffer(name, parameter.detach(), persistent=False)
