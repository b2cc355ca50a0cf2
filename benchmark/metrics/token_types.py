"""Token-type metrics: which ids occur in the batch, whatever their order."""

from __future__ import annotations

from benchmark.spec import Recovery, Truth


def recovered_types(
    truth: Truth, recovery: Recovery, special_ids: frozenset[int]
) -> frozenset[int]:
    """The types an attack names, or those of the sentences that answer for the batch."""
    if recovery.token_types is not None:
        return recovery.token_types - special_ids
    answers = recovery.sentences[: len(truth.sentences)]
    return frozenset(token for sentence in answers for token in sentence) - special_ids


def type_metrics(
    truth: Truth, recovered: frozenset[int], special_ids: frozenset[int]
) -> dict[str, float]:
    """Precision, recall and F1 (FILM, section 6.3) and FLAT-CHAT's error ratio of the type count.

    Special tokens count on neither side. Nothing recovered is 0 throughout, with a count error
    of 1. Empty where the batch has no type.
    """
    true = truth.token_types - special_ids
    if not true:
        return {}
    hits = len(true & recovered)
    return {
        "type_precision": hits / len(recovered) if recovered else 0.0,
        "type_recall": hits / len(true),
        "type_f1": 2 * hits / (len(true) + len(recovered)),
        "type_count_error": abs(len(recovered) - len(true)) / len(true),
    }
