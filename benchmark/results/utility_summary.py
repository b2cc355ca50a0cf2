"""What the utility records show together: each defense's cost on each task, with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.files import read_model
from benchmark.results.measure import summary
from benchmark.results.schema import MetricValue, Status, UtilityRecord
from benchmark.results.store import utility_files


@dataclass(frozen=True)
class UtilityCost:
    """One defense on one task, over its seeds."""

    task: str
    """The task that was trained; `registry.trained_as` says which one stands for others."""
    defense: str
    metrics: Mapping[str, MetricValue]
    """Utility metrics, `step_seconds`, `bytes_up` and, of federated tasks, `bytes_down`: a value
    for each seed, mean and interval. Empty unless every training succeeded."""
    epsilon: float | None
    status: Status
    """`ok`, or that of the first training that failed."""
    reason: str
    curve: Mapping[int, float] = field(default_factory=dict)
    """Federated tasks: validation accuracy by round, mean over the seeds."""


def utility_costs(results: Path) -> dict[tuple[str, str], UtilityCost]:
    """All utility costs below a results folder, by task and defense."""
    found: dict[tuple[str, str], list[UtilityRecord]] = defaultdict(list)
    for path in utility_files(results):
        record = read_model(path, UtilityRecord)
        found[record.task, record.defense_name].append(record)
    return {
        key: _utility_cost(*key, sorted(found[key], key=lambda r: r.seed)) for key in sorted(found)
    }


def _utility_cost(task: str, defense: str, trained: list[UtilityRecord]) -> UtilityCost:
    failed = next((record for record in trained if record.status is not Status.OK), None)
    if failed is not None:
        return UtilityCost(task, defense, {}, None, failed.status, failed.reason)
    columns: dict[str, list[float]] = defaultdict(list)
    for record in trained:
        costs = {"step_seconds": record.step_seconds, "bytes_up": record.bytes_up}
        costs["bytes_down"] = record.federated.bytes_down if record.federated else None
        for name, value in (*record.metrics.items(), *costs.items()):
            if value is not None:
                columns[name].append(value)
    metrics = {name: summary(values) for name, values in columns.items()}
    return UtilityCost(task, defense, metrics, trained[0].epsilon, Status.OK, "", _curve(trained))


def _curve(trained: list[UtilityRecord]) -> dict[int, float]:
    """Mean validation accuracy of each round that was looked at."""
    found: dict[int, list[float]] = defaultdict(list)
    for record in trained:
        for result in record.federated.rounds if record.federated else ():
            if result.accuracy is not None:
                found[result.round].append(result.accuracy)
    return {number: sum(values) / len(values) for number, values in sorted(found.items())}
