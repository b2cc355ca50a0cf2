"""Where the text comes from that builtin models learn from and are measured on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmark.errors import UserError
from tasks.corpora import builtin
from tasks.corpora.base import Row, Split
from tasks.corpora.overlap import Texts

LANGUAGE = ("wikitext", "enron", "imdb", "agnews-lm")
CLASSIFICATION = ("cola", "sst2", "rotten-tomatoes")
FEDERATED = ("agnews-fl", "20news-fl", "sst2-fl")

FINE_TUNED = ("wikitext", "enron")
"""Where the fine-tuned GPT-2 is at home; the other language-modeling corpora stay unseen."""


@dataclass(frozen=True)
class RealText:
    """The folder of real corpora (JSON Lines), which training mixes in."""

    folder: Path

    def sentences(self, name: str) -> list[str]:
        """WikiText without its blanks round punctuation, or reviews, as tokenized as they come.

        Sentences that hold a private row of a builtin corpus are left out.
        """
        found = {
            "wikitext": lambda: [untokenize(text) for text in self._read("wikitext_sentences")],
            "reviews": lambda: self._read("rotten_tomatoes"),
        }[name]()
        return [text for text in found if not private_text().inside(text)]

    def _read(self, name: str) -> list[str]:
        """The `text` of every row of a training file."""
        path = self.folder / f"{name}.train.jsonl"
        if not path.is_file():
            raise UserError(f"{path} is missing; give the folder of real corpora with --data.")
        return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


@cache
def private_text() -> Texts:
    """The private rows of all builtin corpora."""
    return Texts(row.text for name in builtin.NAMES for row in builtin.load(name, "private"))


def rows(names: tuple[str, ...], split: Split = "public") -> list[Row]:
    """Rows of several builtin corpora, one after the other."""
    if split == "private":
        raise ValueError("no model may be trained or measured on private rows")
    return [row for name in names for row in builtin.load(name, split)]


def texts(names: tuple[str, ...], split: Split = "public") -> list[str]:
    """The text of those rows."""
    return [row.text for row in rows(names, split)]


def untokenize(text: str) -> str:
    """Undo WikiText's blanks round punctuation, so that real and builtin text look alike."""
    for mark in "-,.":
        text = text.replace(f" @{mark}@ ", mark)
    for mark in (",", ".", ";", ":", "?", "!", ")", "'s", "n't", "%"):
        text = text.replace(f" {mark}", mark)
    return text.replace("( ", "(")
