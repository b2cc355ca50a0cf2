"""Marks which words of a recovered sentence are right, and which also stand in the right order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

MAX_WORDS = 160
"""A page shows no more of a sentence; recovered text is untrusted and may be endless."""
MAX_LETTERS = 60

Hit = Literal["ordered", "elsewhere", ""]


@dataclass(frozen=True)
class Word:
    """One word as it was recovered."""

    text: str
    hit: Hit
    """`ordered`: part of the longest common subsequence, what ROUGE-L counts; `elsewhere`: the
    private sentence has the word, at another place; empty: it does not."""


@lru_cache(maxsize=20_000)
def compare(truth: str, recovered: str) -> tuple[Word, ...]:
    """The words of a recovered sentence, each marked against the private sentence.

    Case and punctuation do not matter, and a word is right no more often than the truth has it.
    """
    private, found = shown(truth), shown(recovered)
    wanted = [_plain(word) for word in private]
    given = [_plain(word) for word in found]
    ordered = _common_subsequence(wanted, given)
    left = Counter(word for word in wanted if word) - Counter(given[i] for i in ordered)
    marked = []
    for i, word in enumerate(found):
        hit: Hit = "ordered" if i in ordered else ""
        if not hit and left[given[i]] > 0:
            left[given[i]] -= 1
            hit = "elsewhere"
        marked.append(Word(word, hit))
    return tuple(marked)


def shown(sentence: str) -> list[str]:
    """The words of a sentence that a page shows, with an ellipsis where it is cut."""
    words = sentence.split()
    short = [w if len(w) <= MAX_LETTERS else w[: MAX_LETTERS - 1] + "…" for w in words[:MAX_WORDS]]
    return [*short, "…"] if len(words) > MAX_WORDS else short


def count(sentence: str) -> int:
    """How many of the shown words can be found; a lone punctuation mark cannot."""
    return sum(bool(_plain(word)) for word in shown(sentence))


def _plain(word: str) -> str:
    """The letters and digits of a word; a lone punctuation mark has none and never matches."""
    return re.sub(r"[\W_]+", "", word.casefold())


def _common_subsequence(wanted: Sequence[str], given: Sequence[str]) -> set[int]:
    """Indices into `given` of one longest common subsequence."""
    rows, columns = len(wanted), len(given)
    length = [[0] * (columns + 1) for _ in range(rows + 1)]  # of the suffixes from (i, j)
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            same = bool(given[j]) and wanted[i] == given[j]
            skip = max(length[i + 1][j], length[i][j + 1])
            length[i][j] = 1 + length[i + 1][j + 1] if same else skip
    return _walk(length, wanted, given)


def _walk(length: list[list[int]], wanted: Sequence[str], given: Sequence[str]) -> set[int]:
    """Follow the table of suffix lengths from the start and collect the matches."""
    i = j = 0
    selected = set()
    while i < len(wanted) and j < len(given):
        if given[j] and wanted[i] == given[j]:
            selected.add(j)
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return selected
