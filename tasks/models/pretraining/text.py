"""The text that the builtin models learn from: public splits only, never private or test rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from tasks.corpora import builtin
from tasks.corpora.base import Row, Split

LANGUAGE = ("wikitext", "enron", "imdb", "agnews-lm")
CLASSIFICATION = ("cola", "sst2", "rotten-tomatoes")
FEDERATED = ("agnews-fl", "20news-fl", "sst2-fl")

PRETRAINING_SHARE = 10
"""`gpt2-pretrained` sees every tenth public row of its domains, and real text besides."""


@dataclass(frozen=True)
class RealText:
    """The folder of real corpora (JSON Lines), which training mixes in."""

    folder: Path

    def read(self, name: str) -> list[str]:
        """The `text` of every row of a training file."""
        path = self.folder / f"{name}.train.jsonl"
        if not path.is_file():
            raise UserError(f"{path} is missing; give the folder of real corpora with --data.")
        return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]

    def wikitext(self) -> list[str]:
        """WikiText sentences without the corpus's blanks round punctuation."""
        return [untokenize(text) for text in self.read("wikitext_sentences")]

    def reviews(self) -> list[str]:
        """Rotten Tomatoes, as tokenized as it comes."""
        return self.read("rotten_tomatoes")


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
