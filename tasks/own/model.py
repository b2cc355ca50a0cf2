"""Stages a user's own model and finds out what it is, before anything is measured."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmark.errors import UserError
from benchmark.spec import Role
from benchmark.suites import ObjectiveName
from tasks.models.digests import MODEL_FILES
from tasks.models.resolve import SOURCES, locate

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_FURTHER = ("generation_config.json", "source.*", "target.*", "vocab.*")
_ANY = 1 << 20
"""Tokenizers without a limit claim one beyond this."""


@dataclass(frozen=True)
class OwnModel:
    """What an audit has to know of a model."""

    folder: Path
    kind: str
    """transformers' name of the architecture."""
    tokenizer: PreTrainedTokenizerBase
    tied: bool
    longest: int
    """Tokens that it reads at most."""
    bytes: int
    """Of all its parameters in single precision, and so of an update."""
    classes: int
    """Of a classifier; 0 where its head is missing."""
    class_numbers: dict[str, int]
    """Numbers of the classes by the names that the model gives them."""

    @property
    def head(self) -> Literal["trained", "fresh"]:
        """Whether its head is there or has to be drawn."""
        return "trained" if self.classes else "fresh"


def stage_model(source: Path, folder: Path) -> Path:
    """Link or copy a model's own files, and nothing else that lies beside them, into a folder."""
    folder.mkdir(parents=True)
    patterns = (*MODEL_FILES, *_FURTHER)
    for path in sorted({path for pattern in patterns for path in source.glob(pattern)}):
        if path.is_file() and not _is_pickle(path):
            _link_or_copy(path.resolve(), folder / path.name)
    return folder


def find_model(reference: str) -> Path:
    """The folder that a reference or a path names, with weights that can be opened."""
    named = reference.partition(":")[0] in SOURCES
    source = locate(reference) if named else Path(reference).expanduser()
    if not source.is_dir():
        raise UserError(
            f"There is no model folder {reference}; give a folder with config.json and "
            "*.safetensors, or hub:<owner>/<name>@<commit>."
        )
    if not (source / "config.json").is_file():
        raise UserError(f"{reference} is not a model folder: it has no config.json.")
    if not any(source.glob("*.safetensors")):
        pickled = next((p.name for kind in _PICKLES for p in sorted(source.glob(kind))), None)
        only = f" but {pickled}, a pickle, which can run code when it is opened" if pickled else ""
        raise UserError(
            f"{reference} holds no .safetensors weights{only}; save the model with "
            "`save_pretrained` first."
        )
    return source


def _is_pickle(path: Path) -> bool:
    return any(path.match(kind) for kind in _PICKLES)


def _link_or_copy(source: Path, target: Path) -> None:
    """A link costs nothing, but only a copy can be made readable to a sandbox."""
    if source.stat().st_mode & 0o004:
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # another file system
    shutil.copyfile(source, target)


# ---------------------------------------------------------------------------------- examining


def examine(folder: Path, objective: ObjectiveName, shown: str) -> OwnModel:
    """Open a staged model for an objective; `shown` is what its user calls it."""
    from tasks.models.loading import freeze_to_buffers
    from tasks.models.roles import roles
    from tasks.models.tokenizers import open_tokenizer

    kind = _kind(folder, objective, shown)
    model, classes = _opened(folder, objective, shown)
    tokenizer = open_tokenizer(folder)
    freeze_to_buffers(model)
    found = roles(model)
    parameters = dict(model.named_parameters())
    numbers = {str(k): int(v) for k, v in (getattr(model.config, "label2id", None) or {}).items()}
    return OwnModel(
        folder=folder,
        kind=kind,
        tokenizer=tokenizer,
        tied=found.tied,
        longest=_longest(model, tokenizer, found.names.get(Role.POSITION_EMBEDDING)),
        bytes=sum(4 * parameter.numel() for parameter in parameters.values()),
        classes=classes,
        class_numbers=numbers,
    )


def _kind(folder: Path, objective: ObjectiveName, shown: str) -> str:
    """The architecture, if transformers knows it and knows how to train it for the objective."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.auto_mappings import CONFIG_MAPPING_NAMES

    try:
        kind = str(json.loads((folder / "config.json").read_text("utf-8"))["model_type"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"The config.json of {shown} does not name a model_type.") from error
    if kind not in CONFIG_MAPPING_NAMES and kind != "leakboard-bilstm":
        raise UserError(
            f"{shown} is a model of the type {kind}, which transformers does not know without code "
            "from the model's folder, and Leakboard runs no such code."
        )
    names = {
        "causal-lm": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        "translation": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    if kind in CONFIG_MAPPING_NAMES and kind not in names[objective]:
        fitting = " or ".join(sorted(o for o, known in names.items() if kind in known))
        raise UserError(
            f"A model of the type {kind} cannot be trained for {objective}"
            + (f"; use --objective {fitting}." if fitting else ".")
        )
    return kind


def _opened(folder: Path, objective: ObjectiveName, shown: str) -> tuple[PreTrainedModel, int]:
    """The model, and how many classes its own head tells apart: 0 where it has no such head."""
    import torch

    from tasks.models.loading import load_weights

    try:
        model, report = load_weights(folder, objective, torch.float32)
    except UserError as error:
        raise UserError(str(error).replace(str(folder), shown)) from error
    absent = sorted(report["missing_keys"]) + sorted(str(k) for k in report["mismatched_keys"])
    body = {name for name, _ in model.base_model.named_parameters(prefix=model.base_model_prefix)}
    lost = [name for name in absent if name in body and "pooler" not in name]
    if lost or (absent and objective != "classification"):
        raise UserError(
            f"The weights of {shown} do not fill a model for {objective} (missing: "
            f"{', '.join((lost or absent)[:3])}); give the weights that you train."
        )
    classes = model.config.num_labels if objective == "classification" and not absent else None
    return model, classes or 0


def _longest(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, position: str | None
) -> int:
    """Tokens that a sentence may have, special tokens counted."""
    limits = [int(getattr(model.config, "max_position_embeddings", None) or _ANY)]
    limits.append(int(min(tokenizer.model_max_length or _ANY, _ANY)))
    if position is not None:
        table = model.get_submodule(position.rpartition(".")[0])
        padding = getattr(table, "padding_idx", None)
        first = int(getattr(table, "offset", 0)) if padding is None else int(padding) + 1
        limits.append(len(model.get_parameter(position)) - first)
    return min(limits)
