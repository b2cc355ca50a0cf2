"""The tables of tasks, submissions, cells, metrics, timing and federated methods as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmark.metrics.table import METRICS, on_boards
from benchmark.results.schema import MetricValue, Provenance
from leaderboard.data.catalog import SubmissionRow
from leaderboard.data.defenses import DefenseBoard
from leaderboard.data.rows import Row
from leaderboard.figures.draw import to_csv
from leaderboard.views.board import Result
from leaderboard.views.cells import CellView
from leaderboard.views.federated import FederatedTable, Leak
from leaderboard.views.timing import TimingHistory

Fields = dict[str, object]


def result_rows(results: Iterable[Result], metrics: Sequence[str] = ()) -> str:
    """Results as CSV, a row for each cell and metric; without `metrics` all that boards show."""
    return to_csv([row for each in results for row in _result_rows(each, metrics)])


def _result_rows(each: Result, metrics: Sequence[str]) -> Iterator[Fields]:
    row = each.row
    cell = _cell(row) | {"status": str(row.status), "reason": row.reason, "failed": row.failed}
    cost: Fields = {
        "seconds": row.seconds,
        "peak_mb": row.record.peak_mb,
        "prepare_seconds": row.record.prepare_seconds,
        "verified": row.verified is not None,
        **_origin(row.record.provenance),
    }
    known = row.score.metrics if row.score else {}
    shown = [name for name in known if on_boards(name) and (not metrics or name in metrics)]
    for name in shown:
        yield cell | _measured(each, name) | cost
    if not shown:
        yield cell | cost


def _origin(origin: Provenance) -> Fields:
    """What is needed to repeat a row."""
    packages = ", ".join(f"{name} {release}" for name, release in sorted(origin.packages.items()))
    return {
        "created": origin.created.isoformat(),
        "git_commit": origin.git_commit,
        "git_dirty": origin.git_dirty,
        "device": origin.device,
        "processor": origin.processor,
        "cores": origin.cores,
        "memory_gb": origin.memory_gb,
        "threads": origin.threads,
        "tf32": origin.tf32,
        "python": origin.python,
        "packages": packages,
        "platform": origin.platform,
        "sandbox": origin.sandbox,
        "attack_digest": origin.attack_digest,
        "defense_digest": origin.defense_digest,
        "fingerprint": origin.fingerprint,
    }


def _cell(row: Row) -> Fields:
    task, version, defense, attack, seed = row.key
    names = {"task": task, "task_version": version, "defense": defense, "attack": attack}
    return {**names, "seed": seed}


def _measured(each: Result, metric: str) -> Fields:
    entry, guess = each.entries.get(metric), each.guesses.get(metric)
    value = each.row.score.metrics[metric] if each.row.score else None
    return {
        "metric": metric,
        "mean": value.mean if value else None,
        "low": value.low if value else None,
        "high": value.high if value else None,
        "n": value.n if value else None,
        "best_baseline": guess.value.mean if guess else None,
        "rank": entry.rank if entry else None,
        "rank_shared": entry.shared if entry else None,
    }


def worst_case_rows(boards: Iterable[DefenseBoard]) -> str:
    """Defenses of one task by their worst case as CSV."""
    return to_csv(
        [
            {
                "defense": entry.defense,
                "seed": board.seed,
                "metric": board.metric,
                "rank": entry.rank or None,
                "shared": entry.shared,
                "worst_case": entry.strongest.value.mean,
                "low": entry.strongest.value.low,
                "high": entry.strongest.value.high,
                "attack": entry.strongest.attack,
                "attacks": entry.strongest.rivals,
                "panel_tried": sum(member.tried for member in entry.case.panel),
                "panel": len(entry.case.panel),
            }
            for board in boards
            for entry in board.entries
        ]
    )


def setting_rows(submission: SubmissionRow) -> str:
    """Parameters, variants and departures of a submission as CSV."""
    parameters = [("parameter", p.name, p.default, p.meaning) for p in submission.parameters]
    variants = [
        ("variant", name, " ".join(f"{key}={value}" for key, value in settings.items()), "")
        for name, settings in submission.variants
    ]
    departures = [("departure", done, "", buys) for done, buys in submission.departures]
    columns = ("part", "name", "value", "meaning")
    rows = (*parameters, *variants, *departures)
    return to_csv([dict(zip(columns, row, strict=True)) for row in rows])


def snapshot_fields(view: CellView) -> Iterator[Fields]:
    """The scores of every snapshot of a cell."""
    cell = _cell(view.row)
    for each in view.snapshots:
        yield {
            **cell,
            "snapshot": each.result.index,
            "status": str(each.result.status),
            "reason": each.result.reason,
            **dict(zip(view.metrics, each.scores, strict=True)),
            "seconds": each.result.seconds,
            "digest": each.result.digest,
        }


def metric_rows() -> str:
    """What every metric means as CSV."""
    return to_csv(
        [
            {
                "metric": metric.name,
                "title": metric.title,
                "kind": metric.kind,
                "unit": metric.unit,
                "better": metric.direction,
                "needs_sentences": metric.needs_sentences,
                "meaning": metric.meaning,
            }
            for metric in METRICS.values()
        ]
    )


def timing_rows(history: TimingHistory) -> str:
    """Every timing test of every run as CSV."""
    return to_csv(
        [
            {
                "datetime": run.datetime,
                "commit": run.commit_info.id,
                "changed": run.commit_info.dirty,
                "processor": run.machine_info.processor_name,
                "python": run.machine_info.python_version,
                "test": test.key,
                "ratio": test.ratio,
                "median": test.stats.median,
                "least": test.stats.min,
                "deviation": test.stats.stddev,
                "rounds": test.stats.rounds,
            }
            for run in history.runs
            for test in run.benchmarks
        ]
    )


def federated_rows(table: FederatedTable) -> str:
    """Federated methods on one task as CSV."""
    return to_csv(
        [
            {
                "method": method.defense,
                "status": method.status,
                "reason": method.reason,
                **_means(method.metrics, ("accuracy_global", "accuracy_local")),
                **_leak("private_tokens", method.private),
                **_leak("token_types", method.worst),
                **_means(method.metrics, ("bytes_up", "bytes_down")),
            }
            for method in table.methods
        ]
    )


def _means(metrics: Mapping[str, MetricValue], names: Sequence[str]) -> Fields:
    found: Fields = {}
    for name in names:
        value = metrics.get(name)
        found |= {
            name: value.mean if value else None,
            f"{name}_low": value.low if value else None,
            f"{name}_high": value.high if value else None,
        }
    return found


def _leak(name: str, leak: Leak | None) -> Fields:
    return {
        f"{name}_leaked": leak.value.mean if leak else None,
        f"{name}_leaked_low": leak.value.low if leak else None,
        f"{name}_leaked_high": leak.value.high if leak else None,
        f"{name}_attack": leak.attack if leak else None,
        f"{name}_task": leak.task if leak else None,
    }
