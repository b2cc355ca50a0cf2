"""Utility metrics: what a trained model is worth, from its answers on the test split."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.errors import UserError


@dataclass(frozen=True)
class Answers:
    """A trained model on the test split, row by row, beside what would have been right."""

    losses: Sequence[float]
    """Mean loss of each row over its predicted tokens."""
    tokens: Sequence[int]
    """Predicted tokens of each row; 1 where a class is predicted."""
    predicted: Sequence[int] = ()
    labels: Sequence[int] = ()
    texts: Sequence[str] = ()
    references: Sequence[str] = ()


def loss(answers: Answers) -> float:
    """Mean over all predicted tokens."""
    pairs = zip(answers.losses, answers.tokens, strict=True)
    return math.fsum(value * count for value, count in pairs) / sum(answers.tokens)


def perplexity(answers: Answers) -> float:
    """Exponential of the loss; a loss beyond 700 nats has no number."""
    value = loss(answers)
    if value > 700:
        raise ValueError(f"training diverged: the test loss is {value:.3g}")
    return math.exp(value)


def accuracy(answers: Answers) -> float:
    """Share of right classes."""
    pairs = list(zip(answers.predicted, answers.labels, strict=True))
    return sum(guess == truth for guess, truth in pairs) / len(pairs)


def matthews(answers: Answers) -> float:
    """Matthews correlation; 0 where only one class is ever predicted."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(list(answers.labels), list(answers.predicted)))


def bleu(answers: Answers) -> float:
    """Corpus BLEU of sacrebleu, from 0 to 100."""
    from sacrebleu import corpus_bleu

    return float(corpus_bleu(list(answers.texts), [list(answers.references)]).score)


MEASURES: Mapping[str, Callable[[Answers], float]] = {
    "perplexity": perplexity,
    "mcc": matthews,
    "accuracy": accuracy,
    "loss": loss,
    "bleu": bleu,
}


def measure(names: Sequence[str], answers: Answers) -> dict[str, float]:
    """The named metrics of one trained model."""
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise UserError(f"There is no way to measure {unknown[0]} after training.")
    return {name: MEASURES[name](answers) for name in names}


# ------------------------------------------------------------------------------ federated clients


def global_accuracy(accuracies: Sequence[float], rows: int) -> float:
    """Geometric mean over the clients; one without a single hit counts as half a hit."""
    least = 0.5 / rows
    return math.exp(math.fsum(math.log(max(a, least)) for a in accuracies) / len(accuracies))


def local_accuracy(accuracies: Sequence[float | None]) -> float:
    """Mean over the clients that have test rows of their own."""
    known = [value for value in accuracies if value is not None]
    return math.fsum(known) / len(known)
