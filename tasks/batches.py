"""How the private split becomes the batches of the snapshots.

The order of sentences depends on corpus and seed alone, so variants of a task that differ only in
batch size attack the same sentences.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from benchmark.suites import Task
from tasks.corpora.base import Entity, Row

_SPECIALS = 2
"""Tokens that frame a sentence at most, and that joined sentences have only once."""


PASSES = 2
"""How often the private split is gone through where the batches of one pass are too few."""


def shuffled(rows: Sequence[Row], corpus: str, seed: int, turn: int = 0) -> list[Row]:
    """The private split in the order in which snapshots take it, in another one each turn."""
    order = list(rows)
    random.Random(f"{corpus} {seed} {turn}" if turn else f"{corpus} {seed}").shuffle(order)
    return order


def batches(task: Task, rows: Sequence[Row], sizes: Sequence[int]) -> list[list[Row]]:
    """All batches that a task can draw; `sizes` are the rows' token counts."""
    longest = task.max_tokens if task.fit == "drop" else max(sizes)
    fitting = [
        (row, size)
        for row, size in zip(rows, sizes, strict=True)
        if task.min_tokens <= size <= longest and private_words(row) >= task.private_tokens
    ]
    if task.fit == "join":
        fitting = _joined(fitting, task.max_tokens)
    kept = [row for row, _ in fitting]
    if task.batch_tokens:
        return _filled(fitting, task.batch_tokens)
    whole = len(kept) // task.batch_size * task.batch_size
    return [kept[i : i + task.batch_size] for i in range(0, whole, task.batch_size)]


def private_words(row: Row) -> int:
    """Words with a digit, FedeVocab's private tokens."""
    return sum(any(map(str.isdigit, word)) for word in row.text.split())


def _joined(fitting: Sequence[tuple[Row, int]], enough: int) -> list[tuple[Row, int]]:
    """Consecutive rows as one, each time until it has enough tokens; what is left over is not."""
    found: list[tuple[Row, int]] = []
    parts: list[Row] = []
    tokens = 0
    for row, size in fitting:
        parts.append(row)
        tokens += size - _SPECIALS
        if tokens >= enough:
            found.append((_one_row(parts), enough))
            parts, tokens = [], 0
    return found


def _one_row(parts: Sequence[Row]) -> Row:
    """Texts one behind the other, with their entities where they then are."""
    entities: list[Entity] = []
    start = 0
    for part in parts:
        entities += (replace(e, start=e.start + start, end=e.end + start) for e in part.entities)
        start += len(part.text) + 1
    sources = [part.source for part in parts if part.source is not None]
    return Row(
        " ".join(part.text for part in parts),
        parts[0].label,
        " ".join(sources) if sources else None,
        tuple(entities),
    )


def _filled(fitting: Sequence[tuple[Row, int]], limit: int) -> list[list[Row]]:
    """Consecutive rows, as many to a batch as `limit` tokens hold."""
    found: list[list[Row]] = [[]]
    tokens = 0
    for row, size in fitting:
        if tokens + size > limit:
            found.append([])
            tokens = 0
        found[-1].append(row)
        tokens += size
    return found[:-1]
