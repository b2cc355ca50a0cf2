"""Open a model from a folder: safetensors only, nothing unpickled, no remote code, no network."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from benchmark.errors import UserError
from tasks.models import bilstm  # noqa: F401 (registers the architecture with transformers)
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["load_weights", "open_model", "open_tokenizer", "roles"]

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
    with quiet(), _readable(directory, "weights"):
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


def open_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder."""
    require_folder(directory)
    with quiet(), _readable(directory, "tokenizer"):
        tokenizer: PreTrainedTokenizerBase = transformers.AutoTokenizer.from_pretrained(
            str(directory), trust_remote_code=False, local_files_only=True
        )
    return tokenizer


def require_folder(directory: Path) -> None:
    """transformers would take a path that does not exist for a name on the hub."""
    if not directory.is_dir():
        raise UserError(f"There is no model folder {directory}; check the path.")


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


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and load reports off the screen; ours says what matters."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def _readable(directory: Path, part: str) -> Iterator[None]:
    """Turn whatever a damaged file makes the libraries raise into one sentence."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"The {part} in {directory} cannot be read ({reason[0][:160]}); "
            "the files are damaged or of a kind that Leakboard does not know."
        ) from error
