"""Federated methods side by side: accuracy, what leaks at worst, traffic, and the curve."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.schema import MetricValue, StrongestAttack, WorstCase
from benchmark.results.utility_summary import UtilityCost

WorstCases = Mapping[tuple[str, str], WorstCase]
UtilityCosts = Mapping[tuple[str, str], UtilityCost]


@dataclass(frozen=True)
class Partition:
    """How the rows of a federated task are spread over its clients."""

    counts: Sequence[Sequence[int]]
    """Training rows of each client by label."""

    @property
    def clients(self) -> int:
        """Their number."""
        return len(self.counts)

    @property
    def labels(self) -> int:
        """The number of labels."""
        return max(map(len, self.counts))

    @property
    def fewest(self) -> int:
        """Rows of the smallest client."""
        return min(map(sum, self.counts))

    @property
    def most(self) -> int:
        """Rows of the largest client."""
        return max(map(sum, self.counts))


@dataclass(frozen=True)
class Leak:
    """The largest value of a metric, and where it was reached."""

    value: MetricValue
    attack: str
    task: str


@dataclass(frozen=True)
class Method:
    """One method on one task."""

    defense: str
    status: str
    reason: str
    metrics: Mapping[str, MetricValue]
    private: Leak | None
    """Private tokens."""
    worst: Leak | None
    """Token types."""
    curve: Mapping[int, float]
    """Validation accuracy by round."""


@dataclass(frozen=True)
class FederatedTable:
    """The methods of one task, the most accurate on clients' own tests first."""

    task: str
    methods: tuple[Method, ...]


def federated_tables(
    tasks: Sequence[str], worst_cases: WorstCases, utility_costs: UtilityCosts
) -> tuple[FederatedTable, ...]:
    """A table for each federated task that has been trained."""
    found = []
    for task in tasks:
        costs = [cost for (trained, _), cost in utility_costs.items() if trained == task]
        methods = [_method(task, cost, worst_cases) for cost in costs]
        if methods:
            found.append(FederatedTable(task, tuple(sorted(methods, key=_order))))
    return tuple(found)


def partition_of(task: str, utility_costs: UtilityCosts) -> Partition | None:
    """The partition that the trainings of a task share, from any of their records."""
    known = (
        cost.label_counts
        for (trained, _), cost in sorted(utility_costs.items())
        if trained == task and cost.label_counts and max(map(sum, cost.label_counts)) > 0
    )
    counts = next(known, None)
    return Partition(counts) if counts else None


def first_seed(cases: Iterable[WorstCase]) -> dict[tuple[str, str], WorstCase]:
    """One worst case for each task and defense, all of the task's first seed."""
    found = list(cases)
    first: dict[str, int] = {}
    for case in found:
        first[case.task] = min(case.seed, first.get(case.task, case.seed))
    return {(case.task, case.defense): case for case in found if case.seed == first[case.task]}


def _order(method: Method) -> tuple[float, str]:
    value = method.metrics.get("accuracy_local")
    return (-value.mean if value else 1.0, method.defense)


def _method(task: str, cost: UtilityCost, worst_cases: WorstCases) -> Method:
    return Method(
        cost.defense,
        str(cost.status),
        cost.reason,
        cost.metrics,
        _leak(task, cost.defense, "ptlr", worst_cases),
        _leak(task, cost.defense, "type_f1", worst_cases),
        cost.curve,
    )


def _leak(task: str, defense: str, metric: str, worst_cases: WorstCases) -> Leak | None:
    """The worst over all batch sizes and rounds of the task."""
    alike = re.compile(rf"{re.escape(task)}(-b\d+(-middle|-last)?)?")
    known: list[tuple[str, StrongestAttack]] = [
        (name, case.worst[metric])
        for (name, used), case in sorted(worst_cases.items())
        if used == defense and alike.fullmatch(name) and metric in case.worst
    ]
    if not known:
        return None
    name, strongest = max(known, key=lambda pair: pair[1].value.mean)
    return Leak(strongest.value, strongest.attack, name)
