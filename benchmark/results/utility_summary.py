"""What the utility records show together: each defense's cost on each task, with intervals.

Defenses are compared over the same seeds only: those that the undefended training of the task has,
or where there is none, those that most defenses have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.results.measure import summary
from benchmark.results.schema import MetricValue, Status, UtilityRecord
from benchmark.results.store import read_records, utility_files
from benchmark.suites import NO_DEFENSE

Trainings = Mapping[int, UtilityRecord]
"""By seed."""


@dataclass(frozen=True)
class UtilityCost:
    """One defense on one task, over the seeds that all defenses of the task are compared with."""

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
    """Why there are no metrics."""
    seeds: tuple[int, ...] = ()
    curve: Mapping[int, float] = field(default_factory=dict)
    """Federated tasks: validation accuracy by round, mean over the seeds."""
    label_counts: tuple[tuple[int, ...], ...] = ()
    """Federated tasks: training rows of each client by label, in the first of the seeds."""


def utility_costs(results: Path) -> dict[tuple[str, str], UtilityCost]:
    """All utility costs below a results folder, by task and defense; newest task versions only."""
    found: dict[tuple[str, int], dict[str, dict[int, UtilityRecord]]] = {}
    for _, record in read_records(utility_files(results), UtilityRecord):
        defenses = found.setdefault((record.task, record.task_version), defaultdict(dict))
        defenses[record.defense_name][record.seed] = record
    newest = {task: (task, version) for task, version in sorted(found)}
    return {
        (task, defense): cost
        for task in sorted(newest)
        for defense, cost in _of_task(task, found[newest[task]])
    }


def _of_task(task: str, trained: Mapping[str, Trainings]) -> Iterable[tuple[str, UtilityCost]]:
    seeds = _common_seeds(trained)
    for defense in sorted(trained):
        yield defense, _utility_cost(task, defense, trained[defense], seeds)


def _common_seeds(trained: Mapping[str, Trainings]) -> tuple[int, ...]:
    if NO_DEFENSE in trained:
        return tuple(sorted(trained[NO_DEFENSE]))
    counted = Counter(tuple(sorted(records)) for records in trained.values())
    return max(counted, key=lambda seeds: (counted[seeds], len(seeds), [-seed for seed in seeds]))


def _utility_cost(
    task: str, defense: str, trained: Trainings, seeds: tuple[int, ...]
) -> UtilityCost:
    compared = [trained[seed] for seed in seeds if seed in trained]
    failed = next((record for record in compared if record.status is not Status.OK), None)
    if failed is not None:
        return UtilityCost(task, defense, {}, None, failed.status, failed.reason, seeds)
    if missing := [seed for seed in seeds if seed not in trained]:
        said = f"trained with seeds {_listed(trained)}; others are compared over {_listed(seeds)}"
        reason = f"{said}, and {_listed(missing)} are missing"
        return UtilityCost(task, defense, {}, None, Status.OK, reason, seeds)
    columns: dict[str, list[float]] = defaultdict(list)
    for record in compared:
        costs = {"step_seconds": record.step_seconds, "bytes_up": record.bytes_up}
        costs["bytes_down"] = record.federated.bytes_down if record.federated else None
        for name, value in (*record.metrics.items(), *costs.items()):
            if value is not None:
                columns[name].append(value)
    metrics = {name: summary(name, values) for name, values in columns.items()}
    first, curve = compared[0], _curve(compared)
    counts = tuple(map(tuple, first.federated.label_counts)) if first.federated else ()
    return UtilityCost(task, defense, metrics, first.epsilon, Status.OK, "", seeds, curve, counts)


def _curve(trained: Iterable[UtilityRecord]) -> dict[int, float]:
    """Mean validation accuracy of each round that was looked at."""
    found: dict[int, list[float]] = defaultdict(list)
    for record in trained:
        for result in record.federated.rounds if record.federated else ():
            if result.accuracy is not None:
                found[result.round].append(result.accuracy)
    return {number: sum(values) / len(values) for number, values in sorted(found.items())}


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
