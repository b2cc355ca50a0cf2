"""Private sentences beside what came back, for the viewer of a board and for the page of a cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leaderboard.data.rows import Row
from leaderboard.render.diff import Word, compare, count

MOST_SENTENCES = 64
"""Snapshots that a board's viewer steps through at most, so that a page stays one."""


@dataclass(frozen=True)
class ExampleView:
    """One private sentence and what each attack made of it."""

    index: int
    """The snapshot it comes from."""
    truth: str
    words: int
    """Words of the private sentence that could be found."""
    answers: tuple[tuple[Row, tuple[Word, ...]], ...]


def examples(rows: Iterable[Row]) -> tuple[ExampleView, ...]:
    """The first private sentences of a board, each with the answers of all attacks below it."""
    groups: dict[tuple[int, str], list[tuple[Row, tuple[Word, ...]]]] = {}
    for row in rows:
        for example in row.score.examples if row.score and row.measured else ():
            if example.sentence:
                continue
            answer = (row, compare(example.truth, example.recovered))
            groups.setdefault((example.index, example.truth), []).append(answer)
    first = sorted(groups)[:MOST_SENTENCES]
    return tuple(
        ExampleView(index, truth, count(truth), tuple(groups[index, truth]))
        for index, truth in first
    )
