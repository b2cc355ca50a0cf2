"""A user's texts as rows of a corpus that fit her model: lengths, classes, and what is held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from tasks.corpora.base import Row
from tasks.own.model import OwnModel
from tasks.own.texts import Label, OwnText

LEAST_FOR_UTILITY = 40
HELD_OUT = 0.3
"""Share of the texts that test what a defense costs."""
STEP = 16
"""Lengths are known in steps of so many tokens, since a server knows no more than a maximum."""


@dataclass(frozen=True)
class OwnRows:
    """Texts to be attacked, and texts that a model is tested with where utility is asked for."""

    private: Sequence[Row]
    test: Sequence[Row]
    longest: int
    """Tokens of a text at most."""
    classes: int
    """Of a classifier."""


def make_rows(path: Path, texts: Sequence[OwnText], model: OwnModel, utility: bool) -> OwnRows:
    """Check the texts against the model and number their classes."""
    longest, numbers = _longest(path, texts, model), _numbers(path, texts, model)
    rows = [text.row(numbers) for text in texts]
    classes = model.classes or max(2, 1 + max(row.label or 0 for row in rows))
    if not utility:
        return OwnRows(rows, (), longest, classes)
    if len(rows) < LEAST_FOR_UTILITY:
        raise UserError(
            f"{path} has {len(rows)} texts, too few to train and test with (at least "
            f"{LEAST_FOR_UTILITY}); give more, or leave --utility out."
        )
    kept = round(len(rows) * (1 - HELD_OUT))
    return OwnRows(rows[:kept], rows[kept:], longest, classes)


def _longest(path: Path, texts: Sequence[OwnText], model: OwnModel) -> int:
    """Tokens of the longest text, rounded up; refuses one that the model cannot read."""
    most, line = max((_tokens(text, model), text.line) for text in texts)
    if most > model.longest:
        raise UserError(
            f"Line {line} of {path} has {most} tokens, more than the {model.longest} that the "
            "model reads; shorten or divide it."
        )
    return min(model.longest, -(-most // STEP) * STEP)


def _tokens(text: OwnText, model: OwnModel) -> int:
    """Tokens of the longer side, two special ones counted."""
    sides = [text.text, *([text.source] if text.source else [])]
    plain = model.tokenizer(sides, add_special_tokens=False, verbose=False).input_ids
    return max(map(len, plain)) + 2


def _numbers(path: Path, texts: Sequence[OwnText], model: OwnModel) -> dict[Label, int]:
    """The number of each label: its own, the one that the model gives it, or its place."""
    labels = [text.label for text in texts if text.label is not None]
    words = sorted({label for label in labels if isinstance(label, str)})
    numbers: dict[Label, int] = {label: label for label in labels if isinstance(label, int)}
    known = model.class_numbers if set(words) <= set(model.class_numbers) else {}
    numbers |= {word: known.get(word, place) for place, word in enumerate(words)}
    for text in texts:
        number = 0 if text.label is None else numbers[text.label]
        if number < 0 or number >= (model.classes or number + 1):
            raise UserError(
                f"Line {text.line} of {path} has the label {text.label!r}, which is none of the "
                f"{model.classes or 'possible'} classes; classes are counted from 0."
            )
    return numbers
