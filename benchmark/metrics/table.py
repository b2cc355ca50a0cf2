"""Every metric as data: the command line and the site describe a number from this table alone.

Nothing heavy is imported here, so that `leakboard --help` can read it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Direction = Literal["higher", "lower"]
Kind = Literal["recovery", "utility", "cost"]
Bounds = tuple[float | None, float | None]
"""The least and the greatest value that a metric can take; None where there is none."""
SHARE: Bounds = (0.0, 1.0)
UPWARD: Bounds = (0.0, None)


@dataclass(frozen=True)
class Metric:
    """How to name, read and order one number."""

    name: str
    title: str
    unit: str
    """`fraction` lies between 0 and 1; empty where the number has no unit."""
    direction: Direction
    """The good end for whom the metric judges: an attack by recovery (`higher` leaks more), a
    trained model by utility, and whoever pays by cost."""
    kind: Kind
    meaning: str
    """One line for a reader of the leaderboard."""
    needs_sentences: bool = False
    """Not applicable to an attack that only ever returns token types."""
    bounds: Bounds = UPWARD
    published_scale: bool = False
    """Counts what published figures count, to stand beside those and nowhere else."""

    @property
    def better_for_attack(self) -> Direction | None:
        """The end that means more leak; None where the number says nothing about the leak."""
        return self.direction if self.kind == "recovery" else None

    def better(self, first: float, second: float) -> bool:
        """Whether the first of two values is the better one."""
        return first > second if self.direction == "higher" else first < second


def _sentences(name: str, title: str, meaning: str) -> Metric:
    return Metric(
        name, title, "fraction", "higher", "recovery", meaning, needs_sentences=True, bounds=SHARE
    )


def _types(name: str, title: str, meaning: str) -> Metric:
    return Metric(name, title, "fraction", "higher", "recovery", meaning, bounds=SHARE)


def _accuracy(name: str, title: str, meaning: str) -> Metric:
    return Metric(name, title, "fraction", "higher", "utility", meaning, bounds=SHARE)


_PAIRED = "with each private sentence paired to one recovered sentence, mean over the batch."

_ALL = (
    _sentences("rouge1", "ROUGE-1", f"F score of shared words, {_PAIRED}"),
    _sentences("rouge2", "ROUGE-2", f"F score of shared word pairs, {_PAIRED}"),
    _sentences("rougeL", "ROUGE-L", f"F score of the longest common subsequence, {_PAIRED}"),
    _sentences("best_rouge1", "best ROUGE-1", "ROUGE-1 of the luckiest pair of the batch."),
    _sentences("best_rouge2", "best ROUGE-2", "ROUGE-2 of the luckiest pair of the batch."),
    _sentences("best_rougeL", "best ROUGE-L", "ROUGE-L of the luckiest pair of the batch."),
    _sentences("exact_match", "exact match", "Private sentences recovered token for token."),
    _sentences(
        "nerr",
        "NERR",
        "Named entities found whole in the sentence that was recovered for theirs.",
    ),
    _types("type_precision", "type precision", "Recovered token types that are in the batch."),
    _types("type_recall", "type recall", "Token types of the batch that were recovered."),
    _types("type_f1", "type F1", "Harmonic mean of type precision and type recall."),
    Metric(
        "type_count_error",
        "type count error",
        "ratio",
        "lower",
        "recovery",
        "Error of the recovered number of token types, relative to the true number.",
    ),
    _types("ptlr", "PTLR", "Private tokens (those with a digit) of the batch that were recovered."),
    _sentences(
        "sentence_recall",
        "sentence recall",
        "Private sentences that any recovered sentence meets at ROUGE-L above 0.25.",
    ),
    _sentences(
        "sentence_precision",
        "sentence precision",
        "Recovered sentences that meet any private sentence at ROUGE-L above 0.25.",
    ),
    replace(
        _sentences(
            "rouge1_with_specials",
            "ROUGE-1 with specials",
            "ROUGE-1 with the special tokens of both texts counted as words, as some papers do.",
        ),
        published_scale=True,
    ),
    Metric(
        "perplexity",
        "perplexity",
        "",
        "lower",
        "utility",
        "Exponential of the mean loss per token on test text.",
        bounds=(1.0, None),
    ),
    Metric(
        "mcc",
        "Matthews correlation",
        "",
        "higher",
        "utility",
        "Correlation of predicted and true classes on the test split, from -1 to 1.",
        bounds=(-1.0, 1.0),
    ),
    _accuracy("accuracy", "accuracy", "Test examples that are classified correctly."),
    _accuracy(
        "accuracy_global",
        "global accuracy",
        "Accuracy on the common test split, geometric mean over the clients.",
    ),
    _accuracy(
        "accuracy_local",
        "local accuracy",
        "Accuracy on each client's own test data, mean over the clients.",
    ),
    Metric("loss", "loss", "nats", "lower", "utility", "Mean validation loss."),
    Metric(
        "bleu",
        "BLEU",
        "points",
        "higher",
        "utility",
        "Corpus BLEU, from 0 to 100.",
        bounds=(0.0, 100.0),
    ),
    Metric("seconds", "time", "s", "lower", "cost", "Time of one recovery, successful ones only."),
    Metric(
        "peak_mb", "peak memory", "MB", "lower", "cost", "Largest memory of the cell's process."
    ),
    Metric(
        "step_seconds",
        "time of a step",
        "s",
        "lower",
        "cost",
        "Time in which a client makes one update while the model is trained.",
    ),
    Metric("bytes_up", "traffic", "B", "lower", "cost", "Bytes that a client sends in a round."),
    Metric(
        "bytes_down",
        "traffic down",
        "B",
        "lower",
        "cost",
        "Bytes that a client of a federated task receives in a round.",
    ),
    Metric("epsilon", "ε", "", "lower", "cost", "Privacy budget that the defense spends."),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""All metrics by name, in the order in which they are shown."""


def on_boards(name: str) -> bool:
    """Whether boards and worst cases show a metric; those of the published scale they do not."""
    return name not in METRICS or not METRICS[name].published_scale


def of_kind(kind: Kind) -> tuple[Metric, ...]:
    """The metrics of one kind, in display order."""
    return tuple(metric for metric in _ALL if metric.kind == kind)


SENTENCE_METRIC, TYPE_METRIC = "rougeL", "type_f1"
"""What attacks are ranked by: those that write sentences, and those that name token types."""


def main_metrics(family: str) -> tuple[str, ...]:
    """The metrics that a family of tasks is ranked by, the most telling first.

    Sentences are ranked by ROUGE-L; attacks that only name token types, and all attacks on
    translation, by the F1 of the token types. An unknown family is ranked by both.
    """
    return (TYPE_METRIC,) if family == "translation" else (SENTENCE_METRIC, TYPE_METRIC)
