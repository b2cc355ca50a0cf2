"""Sentences as the metrics see them: special tokens gone, both sides decoded alike.

True and recovered ids pass through the same decoder. What the tokenizer loses (case, accents,
text cut at the maximal length) then weighs on neither side, and a perfect recovery scores 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rouge_score import tokenize as rouge_tokenize

Decode = Callable[[Sequence[int]], str]
Grams = frozenset[tuple[tuple[str, ...], int]]

_HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Words between spaces and punctuation, without case and accents, in any script."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    return _WORD.findall(plain.casefold())


def is_private(word: str) -> bool:
    """FedeVocab's rule: a private token is one that contains a digit."""
    return any(character.isdigit() for character in word)


@dataclass(frozen=True)
class Sentence:
    """One sentence without special tokens, with its views cached for many comparisons."""

    ids: tuple[int, ...]
    text: str

    @cached_property
    def rouge_words(self) -> tuple[str, ...]:
        """rouge-score's own words: lower case, anything but a-z and 0-9 dropped.

        Kept as it is for comparability with the papers, though it breaks words at an umlaut.
        """
        return tuple(rouge_tokenize.tokenize(self.text, None))

    @cached_property
    def unigrams(self) -> Grams:
        """Multiset of words."""
        return _numbered(self.rouge_words, 1)

    @cached_property
    def bigrams(self) -> Grams:
        """Multiset of word pairs."""
        return _numbered(self.rouge_words, 2)

    @cached_property
    def words(self) -> list[str]:
        """Words in the wider sense of :func:`words`, in which names and numbers are sought."""
        return words(self.text)


def _numbered(sequence: Sequence[str], length: int) -> Grams:
    """A multiset of n-grams as a set of (n-gram, occurrence), so that `&` takes the minimum."""
    seen: Counter[tuple[str, ...]] = Counter()
    grams = []
    for start in range(len(sequence) - length + 1):
        gram = tuple(sequence[start : start + length])
        grams.append((gram, seen[gram]))
        seen[gram] += 1
    return frozenset(grams)


@dataclass(frozen=True)
class Reader:
    """Turns token ids into sentences."""

    decode: Decode
    """Text of ids that hold no special tokens."""
    special_ids: frozenset[int]
    specials: int = 0
    """Special tokens that the model puts around a sentence, as `[CLS]` and `[SEP]`."""

    def read(self, ids: Sequence[int]) -> Sentence:
        """The sentence behind these ids, its special tokens taken out wherever they stand."""
        kept = tuple(i for i in ids if i not in self.special_ids)
        return Sentence(kept, self.decode(kept) if kept else "")

    def text_of(self, token: int) -> str:
        """One token alone; a part of a character is none."""
        return self.decode((token,))

    def spelled_words(self, sentence: Sentence) -> Iterator[tuple[str, frozenset[int]]]:
        """Each word with the token ids that spell it.

        A token belongs to the words that change or appear when the decoded prefix grows by it;
        one that ends inside a character waits for the rest of that character. This needs nothing
        of a tokenizer but its decoder.
        """
        spelled: list[set[int]] = []
        before: list[str] = []
        waiting: set[int] = set()
        for end, token in enumerate(sentence.ids, start=1):
            text = self.decode(sentence.ids[:end])
            after = words(text)
            waiting.add(token)
            spelled += [set() for _ in range(len(after) - len(spelled))]
            for place, word in enumerate(after):
                if place >= len(before) or before[place] != word:
                    spelled[place] |= waiting
            if not text.endswith(_HALF_CHARACTER):
                waiting = set()
            before = after
        for word, ids in zip(before, spelled, strict=False):
            yield word, frozenset(ids)
