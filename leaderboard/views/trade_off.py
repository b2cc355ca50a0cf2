"""Privacy against utility: every defense of a task as a point, the worst leak over its cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.metrics.table import METRICS
from benchmark.results.schema import MetricValue, StrongestAttack, WorstCase
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import TaskRow
from leaderboard.data.ranking import NO_DEFENSE, main_metrics
from leaderboard.render.formatting import number

WorstCases = Mapping[tuple[str, str], WorstCase]
UtilityCosts = Mapping[tuple[str, str], UtilityCost]

MARGIN = 6.0
"""Space between the outermost points and the edge, in hundredths of the width."""


@dataclass(frozen=True)
class Point:
    """One defense with what it leaves and what it costs."""

    number: int
    defense: str
    leak: StrongestAttack
    cost: UtilityCost
    utility: MetricValue
    x: float
    """0 to 100, the better the utility, the further to the right."""
    x_low: float
    x_high: float
    y: float
    """0 to 100 from above: the less is leaked, the lower."""
    y_low: float
    y_high: float
    slowdown: float | None
    """Time of an update against that of an undefended client."""


@dataclass(frozen=True)
class TradeOff:
    """The points of one task."""

    task: TaskRow
    leak_metric: str
    utility_metric: str
    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]
    """Places and labels on the axis of utility."""


def trade_offs(
    tasks: Sequence[TaskRow], worst_cases: WorstCases, utility_costs: UtilityCosts
) -> tuple[TradeOff, ...]:
    """One trade-off plot for each task on which at least two defenses have both numbers."""
    made = (trade_off(task, worst_cases, utility_costs) for task in tasks)
    return tuple(each for each in made if each is not None)


def trade_off(
    task: TaskRow, worst_cases: WorstCases, utility_costs: UtilityCosts
) -> TradeOff | None:
    """The trade-off plot of one task, or None where there is too little to compare."""
    measured = {
        d: p for (name, d), p in utility_costs.items() if name == task.trained_as and p.metrics
    }
    metric = main_metrics(task.family)[0]
    utility = next(
        (m for m in task.utility if any(m in p.metrics for p in measured.values())), None
    )
    both = [
        (defense, worst_cases[task.name, defense].worst[metric], cost)
        for defense, cost in measured.items()
        if utility in cost.metrics
        and (task.name, defense) in worst_cases
        and metric in worst_cases[task.name, defense].worst
    ]
    if utility is None or len(both) < 2:
        return None
    both.sort(key=lambda item: (item[0] != NO_DEFENSE, item[1].value.mean, item[0]))
    axis = Axis(utility, [cost.metrics[utility] for _, _, cost in both])
    plain = measured.get(NO_DEFENSE)
    points = tuple(
        _point(i, defense, worst, cost, axis, plain)
        for i, (defense, worst, cost) in enumerate(both)
    )
    return TradeOff(task, metric, utility, points, axis.ticks)


class Axis:
    """The axis of utility: better to the right, on a log scale for perplexity."""

    def __init__(self, metric: str, values: Sequence[MetricValue]) -> None:
        self.metric = metric
        self.logarithmic = metric == "perplexity"
        self.reversed = METRICS[metric].direction == "lower"
        ends = [self._scaled(end) for value in values for end in (value.low, value.high)]
        self.low, self.high = min(ends), max(ends)
        marks = sorted({value.mean for value in values})
        selected = dict.fromkeys((marks[0], marks[len(marks) // 2], marks[-1]))
        self.ticks = tuple((self.place(mark), number(mark)) for mark in selected)

    def place(self, value: float) -> float:
        """0 to 100."""
        width = self.high - self.low
        share = (self._scaled(value) - self.low) / width if width else 0.5
        share = 1 - share if self.reversed else share
        return round(MARGIN + (100 - 2 * MARGIN) * share, 2)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def _point(
    place: int,
    defense: str,
    worst: StrongestAttack,
    cost: UtilityCost,
    axis: Axis,
    plain: UtilityCost | None,
) -> Point:
    utility, leak = cost.metrics[axis.metric], worst.value
    return Point(
        number=place,
        defense=defense,
        leak=worst,
        cost=cost,
        utility=utility,
        x=axis.place(utility.mean),
        x_low=axis.place(utility.low),
        x_high=axis.place(utility.high),
        y=_height(leak.mean),
        y_low=_height(leak.low),
        y_high=_height(leak.high),
        slowdown=_slowdown(cost, plain),
    )


def _height(leak: float) -> float:
    """0 to 100 from above, of a share between 0 and 1."""
    return round(100 - MARGIN - (100 - 2 * MARGIN) * min(max(leak, 0.0), 1.0), 2)


def _slowdown(cost: UtilityCost, plain: UtilityCost | None) -> float | None:
    own = cost.metrics.get("step_seconds")
    base = plain.metrics.get("step_seconds") if plain else None
    return own.mean / base.mean if own and base and base.mean else None
