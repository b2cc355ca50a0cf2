"""What identifies someone: named entities (NERR) and tokens with digits (PTLR)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmark.metrics.decoding import Reader, is_private, words
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
    batch: ScoredBatch, named: frozenset[int], reader: Reader
) -> float | None:
    """PTLR: private tokens of the batch that were recovered. None where it has none.

    FedeVocab counts tokens, not numbers: its private tokens are entries of the vocabulary that
    contain a digit. So one counts wherever the attack put it, and whatever surrounds it there. It
    must stand in a sentence that answers for the batch; `named` counts for an attack that returned
    token types only, since a list may be as long as its author likes.
    """
    private = [
        token
        for truth in batch.truths
        for token in truth.sentence.ids
        if is_private(reader.text_of(token))
    ]
    found = {token for answer in batch.answers for token in answer.ids} or named
    return sum(token in found for token in private) / len(private) if private else None
