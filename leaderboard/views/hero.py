"""The one example of the front page: a private sentence beside what the best attack read of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmark.metrics.table import SENTENCE_METRIC
from leaderboard.data.ranking import NO_DEFENSE, Board
from leaderboard.data.rows import Row
from leaderboard.render.diff import Word, compare, count

FEWEST_WORDS, MOST_WORDS = 5, 24
"""Of a sentence that a reader takes in at a glance."""


@dataclass(frozen=True)
class Hero:
    """A private sentence, the best reading of it, and a guess that did not see the gradient."""

    task: str
    truth: str
    row: Row
    """Of the attack that read it."""
    recovered: tuple[Word, ...]
    guess: tuple[str, tuple[Word, ...]] | None
    """A baseline with its words, where one wrote a sentence for the same snapshot."""


def hero(boards: Iterable[Board]) -> Hero | None:
    """The sentence with most words right of those that leading attacks read; None without text."""
    readings = [
        (_quality(example.truth, words), board, entry.row, example.index, example.truth, words)
        for board in boards
        if board.defense == NO_DEFENSE and board.current
        for ranking in [board.ranking(SENTENCE_METRIC)]
        for entry in (ranking.leaders if ranking else ())
        for example in (entry.row.score.examples if entry.row.score else ())
        if example.sentence == 0
        and FEWEST_WORDS <= count(example.truth) <= MOST_WORDS
        and (words := compare(example.truth, example.recovered))
    ]
    if not readings:
        return None
    best = max(readings, key=lambda reading: (reading[0], reading[2].key, -reading[3]))
    _, board, row, index, truth, words = best
    return Hero(board.task, truth, row, words, _guess(board, index, truth))


def _quality(truth: str, words: tuple[Word, ...]) -> tuple[float, int]:
    """Share of the words that are right and in order, then how many those are."""
    right = sum(word.hit == "ordered" for word in words)
    return right / max(count(truth), len(words)), right


def _guess(board: Board, index: int, truth: str) -> tuple[str, tuple[Word, ...]] | None:
    for row in board.rows:
        for example in row.score.examples if row.baseline and row.score else ():
            if (example.index, example.truth) == (index, truth) and example.recovered:
                return row.attack, compare(truth, example.recovered)
    return None
