"""What the utility records say together: each defense's price on each task, with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmark import records
from benchmark.metrics.scoring import summary
from benchmark.records import MetricValue, Status, UtilityRecord


@dataclass(frozen=True)
class Price:
    """One defense on one task, over its seeds."""

    task: str
    """The task that was trained; `benchmark.utility.priced_as` says which one stands for others."""
    defense: str
    metrics: Mapping[str, MetricValue]
    """Utility metrics, `step_seconds` and `bytes_up`: a value for each seed, mean and interval.
    Empty unless every training succeeded."""
    epsilon: float | None
    status: Status
    """`ok`, or that of the first training that failed."""
    reason: str


def prices(results: Path) -> dict[tuple[str, str], Price]:
    """All prices below a results folder, by task and defense."""
    found: dict[tuple[str, str], list[UtilityRecord]] = defaultdict(list)
    for path in records.utility_files(results):
        record = records.read(path, UtilityRecord)
        found[record.task, record.defense_name].append(record)
    return {key: _price(*key, sorted(found[key], key=lambda r: r.seed)) for key in sorted(found)}


def _price(task: str, defense: str, trained: list[UtilityRecord]) -> Price:
    failed = next((record for record in trained if record.status is not Status.OK), None)
    if failed is not None:
        return Price(task, defense, {}, None, failed.status, failed.reason)
    columns: dict[str, list[float]] = defaultdict(list)
    for record in trained:
        costs = {"step_seconds": record.step_seconds, "bytes_up": record.bytes_up}
        for name, value in (*record.metrics.items(), *costs.items()):
            if value is not None:
                columns[name].append(value)
    metrics = {name: summary(values) for name, values in columns.items()}
    return Price(task, defense, metrics, trained[0].epsilon, Status.OK, "")
