"""One cell as its page shows it: every snapshot with its scores, texts and pairs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from benchmark.metrics.table import METRICS, on_boards
from benchmark.results.schema import SnapshotResult
from leaderboard.data.rows import Row
from leaderboard.render.diff import Word, compare, count, shown

SHOWN_METRICS = ("rouge1", "rouge2", "rougeL", "exact_match", "nerr", "type_f1", "ptlr")
"""Beside each snapshot; a cell's other metrics stand as means."""
MOST_TEXTS = 8
"""Recovered sentences of a snapshot whose private text is not at hand."""


@dataclass(frozen=True)
class Pair:
    """A private sentence and the recovered one that is its partner."""

    place: int
    truth: str
    words: int
    """Words of the private sentence that could be found."""
    recovered: tuple[Word, ...]

    @property
    def hits(self) -> int:
        """Words of it that were found, in order or not."""
        return sum(bool(word.hit) for word in self.recovered)


@dataclass(frozen=True)
class SnapshotView:
    """One snapshot of a cell."""

    result: SnapshotResult
    scores: tuple[float | None, ...]
    """By the metrics of the cell; None where a metric does not apply to every snapshot."""
    pairs: tuple[Pair, ...]
    texts: tuple[str, ...]
    """What was recovered, where there are no pairs to show."""


@dataclass(frozen=True)
class CellView:
    """One cell."""

    row: Row
    metrics: tuple[str, ...]
    snapshots: tuple[SnapshotView, ...]
    command: str
    local_commands: tuple[str, ...]
    """What makes the cell again with its texts, away from published records."""

    @property
    def has_text(self) -> bool:
        """Whether any private sentence may be shown."""
        return any(snapshot.pairs for snapshot in self.snapshots)


def cell_view(row: Row) -> CellView:
    """Everything that the record and its score tell of a cell."""
    known = row.score.metrics if row.score else {}
    metrics = tuple(name for name in SHOWN_METRICS if name in known and on_boards(name))
    pairs: dict[int, list[Pair]] = {}
    for example in row.score.examples if row.score else ():
        words = compare(example.truth, example.recovered)
        truth = " ".join(shown(example.truth))
        pair = Pair(example.sentence, truth, count(example.truth), words)
        pairs.setdefault(example.index, []).append(pair)
    views = []
    for result in row.record.snapshots:
        scores = tuple(_score(row, metric, result.index) for metric in metrics)
        own = tuple(pairs.get(result.index, ()))
        texts = () if own else tuple(" ".join(shown(text)) for text in result.texts[:MOST_TEXTS])
        views.append(SnapshotView(result, scores, own, texts))
    return CellView(row, metrics, tuple(views), command(row), local_commands(row))


def _score(row: Row, metric: str, index: int) -> float | None:
    values = row.score.metrics[metric].values if row.score else []
    return values[index] if len(values) == row.total and index < len(values) else None


def command(row: Row) -> str:
    """What repeats a cell."""
    record = row.record
    suite, _, task = record.task.partition("/")
    parts = ["leakboard", "run", "--suite", suite, "--task", task or suite]
    parts += ["--attack", row.attack, "--defense", row.defense, "--seed", str(row.seed)]
    return " ".join(shlex.quote(part) for part in parts)


def local_commands(row: Row) -> tuple[str, ...]:
    """What repeats a cell in a folder of its own and renders it with its texts."""
    return (
        f"{command(row)} --results local",
        "leakboard score --results local",
        "leakboard site --results local --out local-site",
    )


def titles(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Metrics as columns are called."""
    return tuple(METRICS[name].title for name in metrics)
