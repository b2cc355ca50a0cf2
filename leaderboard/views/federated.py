"""Federated methods side by side: accuracy, what leaks at worst, traffic, and the curve."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.schema import MetricValue, StrongestAttack, WorstCase
from benchmark.results.utility_summary import UtilityCost

WorstCases = Mapping[tuple[str, str], WorstCase]
UtilityCosts = Mapping[tuple[str, str], UtilityCost]

WIDTH, HEIGHT = 360.0, 120.0
"""Of the drawing of the curves."""


@dataclass(frozen=True)
class Leak:
    """The largest value of a metric, and where it was reached."""

    value: float
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
    line: str
    """Points of its curve in the drawing; empty where there is none."""


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
        _line(cost.curve),
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
    return Leak(strongest.value.mean, strongest.attack, name)


def _line(curve: Mapping[int, float]) -> str:
    """From the first round to the last, accuracy from 0 to 1."""
    last = max(curve, default=0)
    points = (
        f"{WIDTH * number / last:.1f},{HEIGHT * (1 - value):.1f}" for number, value in curve.items()
    )
    return " ".join(points)
