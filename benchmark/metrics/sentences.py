"""Sentence metrics of one batch.

A batch of B private sentences is answered by the first B recovered ones, matched one to one. One
pairing, the one with the greatest mean of the three ROUGE F scores, serves all paired metrics, so
that the three figures and the entities speak of the same pairs. A sentence without a partner
scores 0. The luckiest pair is reported only under `best_*`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.metrics.decoding import Reader, Sentence
from benchmark.metrics.rouge import (
    VARIANTS,
    Matrix,
    Variant,
    rouge1_with_specials,
    rouge_matrix,
)
from benchmark.spec import Truth

STRONG_LEAK = 0.25
"""FILM, section 6.2: ROUGE-L above this is a strong leak of the sentence."""


@dataclass(frozen=True)
class TrueText:
    """A private sentence as the metrics see it."""

    sentence: Sentence
    entities: tuple[str, ...]
    place: int
    """Where it stands in the batch."""


@dataclass(frozen=True)
class ScoredBatch:
    """The two sides of one snapshot."""

    truths: tuple[TrueText, ...]
    """In an order that depends on their content alone, so that ties in the pairing do not depend
    on the order of the batch. Sentences of nothing but special tokens are left out."""
    answers: tuple[Sentence, ...]
    """The recovered sentences that answer for the batch, ordered likewise."""
    surplus: tuple[Sentence, ...]
    """Recovered sentences of lower rank: only sentence recall and precision look at them."""


def read_batch(truth: Truth, recovered: Sequence[Sequence[int]], reader: Reader) -> ScoredBatch:
    """Decode both sides of a snapshot."""
    truths = [
        TrueText(reader.read(sentence.token_ids), sentence.entities, place)
        for place, sentence in enumerate(truth.sentences)
    ]
    guesses = [reader.read(ids) for ids in recovered]
    size = len(truth.sentences)
    return ScoredBatch(
        tuple(sorted((t for t in truths if t.sentence.ids), key=_content)),
        tuple(sorted(guesses[:size], key=lambda guess: guess.ids)),
        tuple(guesses[size:]),
    )


def _content(truth: TrueText) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return truth.sentence.ids, truth.entities


@dataclass(frozen=True)
class BatchComparison:
    """ROUGE of all pairs of a batch, and the pairing that follows from it."""

    batch: ScoredBatch
    rouge: dict[Variant, Matrix]
    """(truths, answers), each variant"""
    surplus: Matrix
    """ROUGE-L, (truths, surplus)"""
    partners: dict[int, int]
    """Row of a true sentence to the column of the answer that is its partner."""

    def partner(self, row: int) -> Sentence | None:
        """The answer paired with a true sentence."""
        column = self.partners.get(row)
        return None if column is None else self.batch.answers[column]


def compare(batch: ScoredBatch) -> BatchComparison:
    """Score all pairs, then match one to one for the greatest mean ROUGE."""
    from scipy.optimize import linear_sum_assignment  # half a second that planning does not pay

    truths = [truth.sentence for truth in batch.truths]
    rouge = {variant: rouge_matrix(variant, truths, batch.answers) for variant in VARIANTS}
    total = rouge["rouge1"] + rouge["rouge2"] + rouge["rougeL"]
    rows, columns = linear_sum_assignment(total, maximize=True)
    partners = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return BatchComparison(batch, rouge, rouge_matrix("rougeL", truths, batch.surplus), partners)


def sentence_metrics(comparison: BatchComparison) -> dict[str, float]:
    """ROUGE, best ROUGE, exact match, sentence recall and precision; nothing for no truth."""
    size = len(comparison.batch.truths)
    if not size:
        return {}
    values: dict[str, float] = {}
    for variant, matrix in comparison.rouge.items():
        paired = [float(matrix[row, column]) for row, column in comparison.partners.items()]
        values[variant] = sum(paired) / size
        values[f"best_{variant}"] = float(matrix.max(initial=0.0))
    values["exact_match"] = _exact_matches(comparison.batch) / size
    return values | _strong_leaks(comparison)


def published_rouge(comparison: BatchComparison, specials: int) -> dict[str, float]:
    """ROUGE-1 of the same pairs on the scale of papers that count special tokens.

    Nothing where a model wraps its sentences in none: the scale is our own there.
    """
    truths = comparison.batch.truths
    if not truths or not specials:
        return {}
    paired = [
        rouge1_with_specials(truths[row].sentence, comparison.batch.answers[column], specials)
        for row, column in comparison.partners.items()
    ]
    return {"rouge1_with_specials": sum(paired) / len(truths)}


def _exact_matches(batch: ScoredBatch) -> int:
    """True sentences with an answer of the same ids; an answer serves one of them."""
    truths = Counter(truth.sentence.ids for truth in batch.truths)
    return (truths & Counter(answer.ids for answer in batch.answers)).total()


def _strong_leaks(comparison: BatchComparison) -> dict[str, float]:
    """FILM, Table 3: recall over the batch, precision over all that was recovered."""
    answers = comparison.rouge["rougeL"] > STRONG_LEAK
    surplus = comparison.surplus > STRONG_LEAK
    leaks = np.hstack([answers, surplus])  # (truths, all recovered)
    size, recovered = leaks.shape
    return {
        "sentence_recall": int(leaks.any(axis=1).sum()) / size,
        "sentence_precision": int(leaks.any(axis=0).sum()) / recovered if recovered else 0.0,
    }
