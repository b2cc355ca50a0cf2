"""What identifies someone: named entities (NERR) and words with digits (PTLR)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmark.metrics.decoding import Reader, Sentence, is_private, words
from benchmark.metrics.sentences import BatchComparison, ScoredBatch


def entity_recovery(comparison: BatchComparison) -> float | None:
    """NERR: true entities that stand whole in the recovered sentence paired with theirs.

    An entity counts as often as it is listed and the decoded true sentence holds it: what the
    tokenizer cut off never was in the gradient. None where the batch has no entity.
    """
    listed = found = 0
    for row, truth in enumerate(comparison.batch.truths):
        partner = comparison.partner(row)
        for entity, mentions in Counter(tuple(words(e)) for e in truth.entities).items():
            present = min(mentions, _occurrences(entity, truth.sentence.words))
            listed += present
            found += min(present, _occurrences(entity, partner.words)) if partner else 0
    return found / listed if listed else None


def _occurrences(entity: Sequence[str], text: Sequence[str]) -> int:
    """How often the words of an entity follow one another in a text."""
    size = len(entity)
    starts = range(len(text) - size + 1) if size else range(0)
    return sum(tuple(text[start : start + size]) == tuple(entity) for start in starts)


def private_token_leakage(
    batch: ScoredBatch, token_types: frozenset[int] | None, reader: Reader
) -> float | None:
    """PTLR: private words of the batch that were recovered. None where it has none.

    Sentences must show the word, as often as it is to count. An attack that returned token types
    only has a word when it has all of the word's token ids.
    """
    truths = [truth.sentence for truth in batch.truths]
    private = _private_words(truths)
    if not private:
        return None
    if batch.answers or token_types is None:
        leaked = (private & _private_words(batch.answers)).total()
    else:
        spellings = (ids for sentence in truths for ids in _spellings(sentence, reader))
        leaked = sum(ids <= token_types for ids in spellings)
    return leaked / private.total()


def _private_words(sentences: Sequence[Sentence]) -> Counter[str]:
    return Counter(word for sentence in sentences for word in sentence.words if is_private(word))


def _spellings(sentence: Sentence, reader: Reader) -> list[frozenset[int]]:
    """Token ids of each private word; sentences without one are not decoded again."""
    if not any(map(is_private, sentence.words)):
        return []
    return list(reader.private_word_ids(sentence))
