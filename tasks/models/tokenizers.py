"""Open a tokenizer from a folder, without the classes of models, which take seconds to import."""

# mypy: disable-error-code="no-untyped-call"
# (transformers leaves some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import transformers
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from benchmark.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def open_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder."""
    require_folder(directory)
    with quiet(), readable(directory, "tokenizer"):
        tokenizer: PreTrainedTokenizerBase = transformers.AutoTokenizer.from_pretrained(
            str(directory), trust_remote_code=False, local_files_only=True
        )
    return tokenizer


def require_folder(directory: Path) -> None:
    """transformers would take a path that does not exist for a name on the hub."""
    if not directory.is_dir():
        raise UserError(f"There is no model folder {directory}; check the path.")


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
def readable(directory: Path, part: str) -> Iterator[None]:
    """Turn whatever a damaged file makes the libraries raise into one sentence."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"The {part} in {directory} cannot be read ({reason[0][:160]}); "
            "the files are damaged or of a kind that Leakboard does not know."
        ) from error
