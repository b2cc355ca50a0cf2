"""Audits for notebooks and training loops: a model and texts in memory, or an update of one's own.

`benchmark.audit` and `benchmark.audit_update` are these functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.auditing.request import AuditRequest, Changed, Material, conduct
from benchmark.auditing.updates import OwnUpdate, store_update
from benchmark.auditing.workspace import workspace
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.registry import find_own_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from benchmark.auditing.report import Report
    from benchmark.auditing.updates import Arrays

THE_TEXTS = "the texts"
"""What a list of texts is called in messages, which name a file otherwise."""
STAND_IN = "unknown"
"""Stands for a text that nobody has told."""


def _nothing(report: Report) -> None:
    """For those who only want the last report."""


def audit(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    texts: Sequence[str] | str | Path,
    request: AuditRequest,
    labels: Sequence[int] | Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    changed: Changed = _nothing,
    running: LocalEngine | None = None,
) -> Report:
    """Measure what can be read back from the gradients of a model on some texts."""
    found = find_own_model(str(model)) if isinstance(model, str | Path) else None
    with workspace() as folder:
        source = found or _saved(model, tokenizer, folder / "given")
        if isinstance(texts, str | Path):
            material = Material(_name(model), source, Path(texts))
            return conduct(request, material, folder, changed, running=running)
        text = _written(folder / "texts.jsonl", texts, labels, sources)
        with _named(text, THE_TEXTS):
            material = Material(_name(model), source, text)
            return conduct(request, material, folder, changed, running=running)


def audit_update(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    update: Arrays,
    request: AuditRequest,
    names: Sequence[str] | None = None,
    difference: bool = False,
    texts: Sequence[str] | None = None,
    labels: Sequence[int] | Sequence[str] | None = None,
    changed: Changed = _nothing,
    running: LocalEngine | None = None,
) -> Report:
    """Measure what can be read back from one update that was computed elsewhere."""
    found = find_own_model(str(model)) if isinstance(model, str | Path) else None
    batch = request.batch_size if texts is None else len(texts)
    known = replace(request, batch_size=batch, sentences=batch, knows_text=texts is not None)
    known = replace(known, defenses=(), utility=False)
    with workspace() as folder:
        source = found or _saved(model, tokenizer, folder / "given")
        told = [STAND_IN] * batch if texts is None else texts
        if known.objective == "classification" and labels is None:
            if texts is not None:
                raise UserError("A classifier's texts need labels; give one for each text.")
            labels = [0] * batch
        sources = [STAND_IN] * batch if known.objective == "translation" else None
        text = _written(folder / "texts.jsonl", told, labels, sources)
        buffers = () if isinstance(model, str | Path) else tuple(model.state_dict())
        given = OwnUpdate(update, names, difference, request.learning_rate, buffers)
        store = partial(store_update, given, request.seed)
        with _named(text, THE_TEXTS):
            material = Material(_name(model), source, text)
            return conduct(known, material, folder, changed, store, running)


def _name(model: PreTrainedModel | str | Path) -> str:
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def _saved(
    model: PreTrainedModel | str | Path, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> Path:
    """The model as files, so that it reaches a worker like any other."""
    if isinstance(model, str | Path) or tokenizer is None:
        raise UserError("A model in memory needs its tokenizer; give both, or the model's folder.")
    with _without_bars():
        model.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
    return folder


@contextmanager
def _without_bars() -> Iterator[None]:
    """transformers shows how far it is with files that nobody has asked about."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # of transformers
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # of transformers


def _written(
    path: Path,
    texts: Sequence[str],
    labels: Sequence[int] | Sequence[str] | None,
    sources: Sequence[str] | None,
) -> Path:
    """Texts as JSON Lines, with what belongs to each."""
    columns: Mapping[str, Sequence[object] | None] = {
        "text": [str(text) for text in texts],
        "label": labels,
        "source": sources,
    }
    for name, column in columns.items():
        if column is not None and len(column) != len(texts):
            raise UserError(
                f"There are {len(texts)} texts and {len(column)} {name}s; give one for each text."
            )
    given = {name: column for name, column in columns.items() if column is not None}
    rows = (dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """Messages name what the user knows, and not a file that she has never seen."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace(str(path), name)) from error
