"""Whether texts stand inside one another, case, spacing and punctuation aside."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

_WORD = re.compile(r"\w+")
_KEY = 3
"""Words by which a text is looked up; fewer where it is shorter."""

Words = tuple[str, ...]


@lru_cache(maxsize=1)  # a text that passes one question is put the next
def words(text: str) -> Words:
    """The words of a text as overlaps are measured: texts alike in them are the same text."""
    return tuple(_WORD.findall(text.casefold()))


class Texts:
    """Texts that can be asked whether they overlap another one. A text without words is none.

    What a question needs is made when it is first asked.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._all = {found for text in texts if (found := words(text))}

    def __contains__(self, text: str) -> bool:
        """Whether this very text is one of them."""
        return words(text) in self._all

    def inside(self, text: str) -> list[Words]:
        """Those that stand inside the text, whole."""
        own = words(text)
        return [
            own[start : start + length]
            for size, lengths in self._lengths.items()
            for start in range(len(own) - size + 1)
            for length in lengths.get(own[start : start + size], ())
            if own[start : start + length] in self._all
        ]

    def around(self, text: str) -> list[Words]:
        """Those that the text stands inside of, whole."""
        own = words(text)
        lines = min((self._lines.get(word, []) for word in own), key=len, default=[])
        line = _line(own)
        return [tuple(each.split()) for each in lines if line in each]

    @cached_property
    def _lengths(self) -> dict[int, dict[Words, set[int]]]:
        """How long those are that begin with so many words, by these words."""
        lengths: dict[int, dict[Words, set[int]]] = {}
        for each in self._all:
            key = each[:_KEY]
            lengths.setdefault(len(key), {}).setdefault(key, set()).add(len(each))
        return lengths

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        """Those that each word stands in."""
        lines: dict[str, list[str]] = defaultdict(list)
        for each in self._all:
            line = _line(each)
            for word in set(each):
                lines[word].append(line)
        return lines


def _line(own: Words) -> str:
    """The words as a string that stands inside another's where they stand in a row in it."""
    return f" {' '.join(own)} "


def connected(texts: Sequence[str], run: int) -> list[int]:
    """For each text, where the first one stands that it hangs together with.

    Texts hang together that have `run` words in a row in common, and so do those that hang together
    with the same text.
    """
    first = list(range(len(texts)))

    def root(at: int) -> int:
        while first[at] != at:
            first[at] = first[first[at]]
            at = first[at]
        return at

    holders: dict[Words, int] = {}
    for at, text in enumerate(texts):
        own = words(text)
        for start in range(len(own) - run + 1):
            other = root(holders.setdefault(own[start : start + run], at))
            mine = root(at)
            first[max(mine, other)] = min(mine, other)
    return [root(at) for at in range(len(texts))]
