"""All results as one tidy table: a row for each cell and metric, and for each training and metric.

Columns are built as lists, since a published leaderboard may have hundreds of thousands of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from benchmark.files import Parameters
from benchmark.metrics.table import METRICS, on_boards
from benchmark.results.schema import MetricValue
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import Catalog, TaskRow
from leaderboard.data.ranking import Board, Entry, Ranking
from leaderboard.data.rows import Row

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["string", "int64", "float64", "bool"]


@dataclass(frozen=True)
class Column:
    """One column of the tidy table, as the data dictionary explains it."""

    name: str
    kind: Kind
    meaning: str


COLUMNS = (
    Column("suite", "string", "Suite of the task."),
    Column("task", "string", "Name of the task, with its suite."),
    Column("task_version", "int64", "Version of the task's definition."),
    Column("family", "string", "Family of the task; empty where the catalog lacks the task."),
    Column("corpus", "string", "Corpus that private sentences are drawn from."),
    Column("model", "string", "Model whose gradient is shared."),
    Column("batch_size", "int64", "Sentences to a batch."),
    Column("batch_tokens", "int64", "Tokens to a batch, where batches are filled by tokens."),
    Column("attack", "string", "Attack with its parameters; empty in rows of a training."),
    Column("attack_submission", "string", "The attack without parameters."),
    Column("attack_parameters", "string", "Parameters that differ from the defaults, as JSON."),
    Column("baseline", "bool", "Whether the attack guesses without reading the gradient."),
    Column("told", "string", "What the attack was told besides model and gradient."),
    Column("defense", "string", "Defense with its parameters; `none` for no defense."),
    Column("defense_submission", "string", "The defense without parameters."),
    Column("defense_parameters", "string", "Parameters that differ from the defaults, as JSON."),
    Column("seed", "int64", "Seed of batches, defense and attack; empty over training seeds."),
    Column("status", "string", "ok, or why there is no number."),
    Column("reason", "string", "The reason in the words of the record."),
    Column("metric", "string", "Name of the metric; empty where the cell has none."),
    Column("kind", "string", "recovery, utility or cost."),
    Column("mean", "float64", "Mean over the snapshots, or over the training seeds."),
    Column("low", "float64", "Lower end of the 95 % interval of the mean."),
    Column("high", "float64", "Upper end of the 95 % interval of the mean."),
    Column("n", "int64", "Snapshots, or training seeds, that the mean is over."),
    Column("best_baseline", "float64", "Mean of the best baseline on the same snapshots."),
    Column("rank", "int64", "Rank on the board by this metric, where it ranks; 1 is best."),
    Column("rank_shared", "bool", "Whether another attack has the same rank."),
    Column("current", "bool", "False for former versions of a task and replaced snapshots."),
    Column("verified", "bool", "Whether somebody has repeated the record with agreement."),
    Column("snapshots", "string", "Digest over the snapshots: equal means the same gradients."),
    Column("device", "string", "Device that the attack ran on."),
    Column("processor", "string", "Processor of the machine."),
    Column("git_commit", "string", "Commit of the code that made the record."),
    Column("created", "string", "When the record was made, UTC, ISO 8601."),
)
"""The data dictionary."""

Values = dict[str, list[object]]


def tidy_table(
    boards: Iterable[Board],
    catalog: Catalog,
    costs: Mapping[tuple[str, str], UtilityCost],
    newest: Mapping[str, int] | None = None,
) -> pyarrow.Table:
    """The table of all boards and trainings; `newest` holds the current version of each task."""
    import pyarrow

    values: Values = {column.name: [] for column in COLUMNS}
    tasks = {task.name: task for task in catalog.tasks}
    for board in boards:
        current = board.current and board.version >= (newest or {}).get(board.task, 0)
        for row in board.rows:
            shared = _cell_fields(row, tasks.get(row.task)) | {"current": current}
            for fields in _metrics(board, row):
                _append(values, shared, fields)
    for cost in costs.values():
        shared = _training_fields(cost, tasks.get(cost.task))
        for name, value in cost.metrics.items():
            _append(values, shared, _measured(name, value))
    types = {"string": pyarrow.string(), "int64": pyarrow.int64(), "bool": pyarrow.bool_()}
    typed = [(c.name, types.get(c.kind, pyarrow.float64())) for c in COLUMNS]
    return pyarrow.table(values, schema=pyarrow.schema(typed))


def _append(values: Values, *parts: Mapping[str, object]) -> None:
    for name, column in values.items():
        column.append(next((part[name] for part in parts if name in part), None))


def _task_fields(name: str, task: TaskRow | None) -> dict[str, object]:
    known = {"family": "", "corpus": "", "model": ""}
    if task:
        known = {"family": task.family, "corpus": task.corpus, "model": task.model}
    return {
        "suite": name.split("/")[0],
        "task": name,
        **known,
        "batch_size": task.batch_size if task and not task.batch_tokens else None,
        "batch_tokens": task.batch_tokens if task else None,
    }


def _cell_fields(row: Row, task: TaskRow | None) -> dict[str, object]:
    record, origin = row.record, row.record.provenance
    return _task_fields(row.task, task) | {
        "task_version": record.task_version,
        "attack": row.attack,
        "attack_submission": record.attack,
        "attack_parameters": _json(record.attack_parameters),
        "baseline": row.baseline,
        "told": None if record.told is None else ", ".join(record.told),
        "defense": row.defense,
        "defense_submission": record.defense,
        "defense_parameters": _json(record.defense_parameters),
        "seed": row.seed,
        "status": str(row.status),
        "reason": row.reason,
        "verified": row.verified is not None,
        "snapshots": record.snapshot_set,
        "device": origin.device,
        "processor": origin.processor,
        "git_commit": origin.git_commit,
        "created": origin.created.isoformat(),
    }


def _training_fields(cost: UtilityCost, task: TaskRow | None) -> dict[str, object]:
    """Of one defense over its training seeds."""
    return _task_fields(cost.task, task) | {
        "defense": cost.defense,
        "status": str(cost.status),
        "reason": cost.reason,
        "current": True,
    }


def _metrics(board: Board, row: Row) -> Iterator[dict[str, object]]:
    entries = {ranking.metric: entry for ranking, entry in _ranks(board, row)}
    shown = {n: v for n, v in row.score.metrics.items() if on_boards(n)} if row.score else {}
    for name, value in shown.items():
        guess, entry = board.guesses.get(name), entries.get(name)
        yield _measured(name, value) | {
            "best_baseline": guess.value.mean if guess else None,
            "rank": entry.rank if entry else None,
            "rank_shared": entry.shared if entry else None,
        }
    if not shown:
        yield {}


def _ranks(board: Board, row: Row) -> Iterator[tuple[Ranking, Entry]]:
    for ranking in board.rankings:
        for entry in ranking.entries:
            if entry.row is row:
                yield ranking, entry


def _measured(name: str, value: MetricValue) -> dict[str, object]:
    return {
        "metric": name,
        "kind": METRICS[name].kind if name in METRICS else "",
        "mean": value.mean,
        "low": value.low,
        "high": value.high,
        "n": value.n,
    }


def _json(parameters: Parameters) -> str:
    return _dumped(tuple(sorted(parameters.items()))) if parameters else ""


@cache
def _dumped(items: tuple[tuple[str, object], ...]) -> str:
    return json.dumps(dict(items), ensure_ascii=False)
