"""How a real corpus, a train and a held-out file, is cut into splits.

Attacked rows are training rows in the papers, so: *private* is the last third of train, *public*
(what an attacker may read) is the rest of train, *test* is held out. The tail is a block, not every
third row, because neighbors in source order resemble each other (CoLA's examples come in pairs),
and a pair must not be divided between the client and the attacker.

No text is in two splits, and no private text stands inside a public one or the other way round,
case, spacing and punctuation aside. Where rows are phrases, those that share a run of words are
parts of one sentence and stay on one side. Each split is then shuffled with a fixed seed, so any
prefix of it is a random sample.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from benchmark.errors import UserError
from tasks.corpora.base import Row, Split
from tasks.corpora.overlap import Texts, Words, connected, words

_PRIVATE_SHARE = 3
"""One row in so many of train is private."""

_SAME_SENTENCE = 4
"""Phrases that have so many words in a row in common are taken for parts of one sentence."""


@dataclass(frozen=True)
class Layout:
    """How a real corpus lies in its files: `<file>.train.jsonl` and `<file>.<held_out>.jsonl`."""

    file: str = ""
    held_out: str = "test"
    """The split that is not for training. GLUE hides its test labels, so there: validation."""
    by_class: bool = False
    """Train is sorted by label, so it is shuffled before it is cut: a tail would be one class."""
    phrases: bool = False
    """Rows are phrases, several of one sentence."""
    articles: bool = False
    """On the hub the rows are lines of articles: headings are dropped, paragraphs are divided."""
    hub: tuple[str, ...] = ()
    """The same corpus on the hub, `<owner>/<dataset>[/<config>]`."""


def cut(
    reference: str, layout: Layout, read: Callable[[str], Iterable[Row]]
) -> dict[Split, tuple[Row, ...]]:
    """Cut train into public and private, add the held-out rows, and keep the three apart."""
    train = list(read("train"))
    if layout.by_class:
        random.Random(0).shuffle(train)
    private, public = _sides(train, layout.phrases)
    private = _outside(private, public)
    public = _outside(public, private)
    seen = {_key(row) for row in (*private, *public)}
    found: dict[Split, list[Row]] = {
        "private": private,
        "public": public,
        "test": list(_unseen(read(layout.held_out), seen)),
    }
    for split, rows in found.items():
        if not rows:
            raise UserError(f"{reference} has no rows for the {split} split; use a larger corpus.")
        random.Random(0).shuffle(rows)
    return {split: tuple(rows) for split, rows in found.items()}


def _sides(train: list[Row], phrases: bool) -> tuple[list[Row], list[Row]]:
    """Private and public rows. Phrases follow the first one of their sentence."""
    every = list(range(len(train)))
    places = connected([row.text for row in train], _SAME_SENTENCE) if phrases else every
    count = len(train) // _PRIVATE_SHARE
    start = sorted(places)[len(train) - count] if count else len(train)
    seen: set[Words] = set()
    private = [row for row, at in zip(train, places, strict=True) if at >= start]
    public = [row for row, at in zip(train, places, strict=True) if at < start]
    return list(_unseen(private, seen)), list(_unseen(public, seen))


def _unseen(rows: Iterable[Row], seen: set[Words]) -> Iterator[Row]:
    """Drop blank rows and texts that came before."""
    for row in rows:
        key = _key(row)
        if row.text and key not in seen:
            seen.add(key)
            yield row


def _key(row: Row) -> Words:
    """What makes two rows the same text; signs alone are a text too."""
    return words(row.text) or (row.text,)


def _outside(rows: list[Row], others: list[Row]) -> list[Row]:
    """The rows that stand inside none of the others."""
    texts = Texts(row.text for row in rows)
    held = {found for other in others for found in texts.inside(other.text)}
    return [row for row in rows if words(row.text) not in held]
