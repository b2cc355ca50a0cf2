"""Privacy against utility: every defense of a task as a point, the worst leak over its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.metrics.table import METRICS
from benchmark.prices import Price
from benchmark.records import LeakRecord, MetricValue, Worst
from leaderboard.catalogue import TaskRow
from leaderboard.numbers import number
from leaderboard.ranking import NO_DEFENSE, main_metrics

Leaks = Mapping[tuple[str, str], LeakRecord]
Prices = Mapping[tuple[str, str], Price]

MARGIN = 6.0
"""Space between the outermost points and the edge, in hundredths of the width."""


@dataclass(frozen=True)
class Point:
    """One defense with what it leaves and what it costs."""

    number: int
    defense: str
    leak: Worst
    price: Price
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
class Plane:
    """The points of one task."""

    task: TaskRow
    leak_metric: str
    utility_metric: str
    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]
    """Places and labels on the axis of utility."""


def planes(tasks: Sequence[TaskRow], leaks: Leaks, prices: Prices) -> tuple[Plane, ...]:
    """One plane for each task on which at least two defenses have both numbers."""
    made = (plane(task, leaks, prices) for task in tasks)
    return tuple(each for each in made if each is not None)


def plane(task: TaskRow, leaks: Leaks, prices: Prices) -> Plane | None:
    """The plane of one task, or None where there is too little to compare."""
    priced = {d: p for (name, d), p in prices.items() if name == task.priced_as and p.metrics}
    metric = main_metrics(task.family)[0]
    utility = next((m for m in task.utility if any(m in p.metrics for p in priced.values())), None)
    both = [
        (defense, leaks[task.name, defense].worst[metric], price)
        for defense, price in priced.items()
        if utility in price.metrics
        and (task.name, defense) in leaks
        and metric in leaks[task.name, defense].worst
    ]
    if utility is None or len(both) < 2:
        return None
    both.sort(key=lambda item: (item[0] != NO_DEFENSE, item[1].value.mean, item[0]))
    axis = Axis(utility, [price.metrics[utility] for _, _, price in both])
    plain = priced.get(NO_DEFENSE)
    points = tuple(
        _point(i, defense, worst, price, axis, plain)
        for i, (defense, worst, price) in enumerate(both)
    )
    return Plane(task, metric, utility, points, axis.ticks)


class Axis:
    """The axis of utility: better to the right, on a log scale for perplexity."""

    def __init__(self, metric: str, values: Sequence[MetricValue]) -> None:
        self.metric = metric
        self.logarithmic = metric == "perplexity"
        self.reversed = METRICS[metric].direction == "lower"
        ends = [self._scaled(end) for value in values for end in (value.low, value.high)]
        self.low, self.high = min(ends), max(ends)
        marks = sorted({value.mean for value in values})
        chosen = dict.fromkeys((marks[0], marks[len(marks) // 2], marks[-1]))
        self.ticks = tuple((self.place(mark), number(mark)) for mark in chosen)

    def place(self, value: float) -> float:
        """0 to 100."""
        width = self.high - self.low
        share = (self._scaled(value) - self.low) / width if width else 0.5
        share = 1 - share if self.reversed else share
        return round(MARGIN + (100 - 2 * MARGIN) * share, 2)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def _point(
    place: int, defense: str, worst: Worst, price: Price, axis: Axis, plain: Price | None
) -> Point:
    utility, leak = price.metrics[axis.metric], worst.value
    return Point(
        number=place,
        defense=defense,
        leak=worst,
        price=price,
        utility=utility,
        x=axis.place(utility.mean),
        x_low=axis.place(utility.low),
        x_high=axis.place(utility.high),
        y=_height(leak.mean),
        y_low=_height(leak.low),
        y_high=_height(leak.high),
        slowdown=_slowdown(price, plain),
    )


def _height(leak: float) -> float:
    """0 to 100 from above, of a share between 0 and 1."""
    return round(100 - MARGIN - (100 - 2 * MARGIN) * min(max(leak, 0.0), 1.0), 2)


def _slowdown(price: Price, plain: Price | None) -> float | None:
    own = price.metrics.get("step_seconds")
    base = plain.metrics.get("step_seconds") if plain else None
    return own.mean / base.mean if own and base and base.mean else None
