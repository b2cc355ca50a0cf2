"""Reads a user's own text: JSON Lines, or one text a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from benchmark.suites import ObjectiveName
from tasks.corpora.base import Row

MOST_BYTES = 256 << 20
"""Of a file: an audit draws a few texts, and reads all of them to do so."""

Label = int | str


@dataclass(frozen=True)
class OwnText:
    """One text, and where it stands."""

    line: int
    text: str
    label: Label | None = None
    source: str | None = None

    def row(self, classes: Mapping[Label, int]) -> Row:
        """As a corpus has it; `classes` gives each label its number."""
        label = None if self.label is None else classes.get(self.label)
        return Row(self.text, label, self.source)


def read_texts(path: Path, objective: ObjectiveName) -> list[OwnText]:
    """All texts of a file, with what the objective needs beside them."""
    texts = list(_texts(path))
    if not texts:
        raise UserError(f"{path} holds no text; give JSON Lines, or one text a line.")
    if objective == "classification":
        _check_labels(path, texts)
    if objective == "translation":
        _check_sources(path, texts)
    return texts


def _texts(path: Path) -> Iterator[OwnText]:
    if not path.is_file():
        raise UserError(f"There is no text file {path}; check the path.")
    if path.stat().st_size > MOST_BYTES:
        raise UserError(
            f"{path} is larger than {MOST_BYTES >> 20} MB, and an audit draws a few texts from it; "
            "give a part of it."
        )
    as_json = None
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            as_json = line.lstrip().startswith(b"{") if as_json is None else as_json
            try:
                found = _from_json(number, line) if as_json else _plain(number, line)
            except (ValueError, RecursionError) as error:
                raise _unreadable(path, number, error) from error
            if found.text:
                yield found


def _plain(number: int, line: bytes) -> OwnText:
    return OwnText(number, line.decode("utf-8").strip())


def _from_json(number: int, line: bytes) -> OwnText:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")
    text = record.get("text", record.get("sentence", record.get("target")))
    label, source = record.get("label"), record.get("source")
    if not isinstance(text, str):
        raise ValueError('it has no "text"')
    if not isinstance(label, int | str | None) or isinstance(label, bool):
        raise ValueError("its label is neither a whole number nor a word")
    if not isinstance(source, str | None):
        raise ValueError("its source is not a text")
    (text + (source or "")).encode()  # lone surrogates pass JSON, but no tokenizer
    return OwnText(number, text.strip(), label, source)


def _unreadable(path: Path, number: int, error: Exception) -> UserError:
    reason = str(error)
    if isinstance(error, UnicodeError):
        reason = "it is not UTF-8"
    elif isinstance(error, json.JSONDecodeError):
        reason = f"it is not JSON, as lines before it are: {error.msg}"
    return UserError(f"Line {number} of {path} cannot be read ({reason}); repair or remove it.")


def _check_labels(path: Path, texts: list[OwnText]) -> None:
    """Every text has a label, and all labels are of one kind."""
    labeled = [text for text in texts if text.label is not None]
    if not labeled:
        raise UserError(
            f"{path} has no labels, and classification needs one for every text; give JSON Lines "
            'with "text" and "label".'
        )
    bare = next((text for text in texts if text.label is None), None)
    if bare is not None:
        raise UserError(
            f"Line {bare.line} of {path} has no label and line {labeled[0].line} has one; label "
            "every text."
        )
    first = texts[0]
    other = next((text for text in texts if type(text.label) is not type(first.label)), None)
    if other is not None:
        raise UserError(
            f"Line {first.line} of {path} has the label {first.label!r} and line {other.line} has "
            f"{other.label!r}; use numbers or words, not both."
        )


def _check_sources(path: Path, texts: list[OwnText]) -> None:
    bare = next((text for text in texts if not text.source), None)
    if bare is not None:
        raise UserError(
            f"Line {bare.line} of {path} has no source sentence, and translation needs one for "
            'every text; give JSON Lines with "source" and "target".'
        )
