"""Whether texts stand inside one another, case, spacing and punctuation aside."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\w+")
_KEY = 3
"""Words by which a text is looked up; fewer where it is shorter."""

Words = tuple[str, ...]


def words(text: str) -> Words:
    """The words of a text as overlaps are measured: texts alike in them are the same text."""
    return tuple(_WORD.findall(text.casefold()))


class Texts:
    """Texts that can be asked whether they overlap another one. A text without words is none."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._all = {found for text in texts if (found := words(text))}
        self._lengths: dict[Words, set[int]] = defaultdict(set)
        for each in self._all:
            self._lengths[each[:_KEY]].add(len(each))
        self._places: dict[int, dict[Words, list[tuple[Words, int]]]] = {}

    def __contains__(self, text: str) -> bool:
        """Whether this very text is one of them."""
        return words(text) in self._all

    def inside(self, text: str) -> list[Words]:
        """Those that stand inside the text, whole."""
        own = words(text)
        return [
            own[start : start + length]
            for start in range(len(own))
            for size in range(1, min(_KEY, len(own) - start) + 1)
            for length in self._lengths.get(own[start : start + size], ())
            if own[start : start + length] in self._all
        ]

    def around(self, text: str) -> list[Words]:
        """Those that the text stands inside of, whole."""
        own = words(text)
        places = self._by_words(min(_KEY, len(own))).get(own[:_KEY], ()) if own else ()
        return [each for each, start in places if each[start : start + len(own)] == own]

    def _by_words(self, size: int) -> dict[Words, list[tuple[Words, int]]]:
        """Where each run of so many words stands; made when it is first asked for."""
        if size not in self._places:
            places = self._places[size] = defaultdict(list)
            for each in self._all:
                for start in range(len(each) - size + 1):
                    places[each[start : start + size]].append((each, start))
        return self._places[size]


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
