"""Privacy against utility: every defense of a task as a point, the worst case over its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmark.metrics.table import METRICS
from benchmark.results.schema import MetricValue, PanelMember, StrongestAttack
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import DefenseBoard, DefenseEntry
from leaderboard.data.ranking import NO_DEFENSE, main_metrics
from leaderboard.render.formatting import number

UtilityCosts = Mapping[tuple[str, str], UtilityCost]

MARGIN = 6.0
"""Space between the outermost points and the edge, in hundredths of the width."""


@dataclass(frozen=True)
class Point:
    """One defense with what it leaves and what it costs."""

    number: int
    defense: str
    leak: StrongestAttack
    complete: bool
    """Whether it has faced the whole panel; if not, it may leave more than is shown."""
    lacking: tuple[PanelMember, ...]
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
    front: bool = False
    """On the Pareto front: no defense that has faced the whole panel leaks less at no less
    utility."""


@dataclass(frozen=True)
class TradeOff:
    """The points of one task with one seed."""

    task: TaskRow
    seed: int
    leak_metric: str
    utility_metric: str
    training_seeds: tuple[int, ...]
    panel: tuple[str, ...]
    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]
    """Places and labels on the axis of utility."""

    @property
    def same_batch(self) -> bool:
        """Whether the updates that are attacked are of the size of those that train."""
        return matches_training(self.task)


def matches_training(task: TaskRow) -> bool:
    """Whether a task attacks updates of as many sentences as its training makes them from."""
    return task.batch_tokens is None and task.batch_size == task.trained_batch


def overview_trade_offs(
    tasks: Sequence[TaskRow], boards: Sequence[DefenseBoard], costs: UtilityCosts
) -> tuple[TradeOff, ...]:
    """Of each task that is trained: its variant at the training's batch size, and itself.

    Of several seeds the one with most defenses is shown, then the smallest.
    """
    drawn = []
    for trained in (task for task in tasks if task.trained_as == task.name):
        alike = [t for t in tasks if t.trained_as == trained.name and matches_training(t)]
        for task in (*alike, *([] if trained in alike else [trained])):
            found = trade_offs(task, boards, costs)
            if found:
                drawn.append(max(found, key=lambda each: (len(each.points), -each.seed)))
    return tuple(drawn)


def trade_offs(
    task: TaskRow, boards: Iterable[DefenseBoard], costs: UtilityCosts
) -> tuple[TradeOff, ...]:
    """One trade-off plot for each seed on which at least two defenses have both numbers."""
    metric = main_metrics(task.family)[0]
    own = (board for board in boards if (board.task, board.metric) == (task.name, metric))
    made = (_trade_off(task, board, costs) for board in own)
    return tuple(each for each in made if each is not None)


def _trade_off(task: TaskRow, board: DefenseBoard, costs: UtilityCosts) -> TradeOff | None:
    measured = {d: p for (name, d), p in costs.items() if name == task.trained_as and p.metrics}
    utility = next(
        (m for m in task.utility if any(m in p.metrics for p in measured.values())), None
    )
    both = [
        (entry, measured[entry.defense])
        for entry in board.entries
        if entry.defense in measured and utility in measured[entry.defense].metrics
    ]
    if utility is None or len(both) < 2:
        return None
    both.sort(key=lambda item: _point_order(item[0]))
    axis = Axis(utility, [cost.metrics[utility] for _, cost in both])
    plain = measured.get(NO_DEFENSE)
    points = [_point(i, entry, cost, axis, plain) for i, (entry, cost) in enumerate(both)]
    marked = tuple(replace(point, front=_on_front(point, points)) for point in points)
    seeds = both[0][1].seeds
    return TradeOff(task, board.seed, board.metric, utility, seeds, board.panel, marked, axis.ticks)


def _point_order(entry: DefenseEntry) -> tuple[bool, float, str]:
    return entry.defense != NO_DEFENSE, entry.strongest.value.mean, entry.defense


def _on_front(point: Point, points: Sequence[Point]) -> bool:
    """No other complete point is at least as good in both ways and better in one."""

    def standing(each: Point) -> tuple[float, float]:
        return each.x, -each.leak.value.mean

    def dominates(other: Point) -> bool:
        pairs = list(zip(standing(other), standing(point), strict=True))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    return point.complete and not any(dominates(other) for other in points if other.complete)


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
        return math.log(max(value, 1.0)) if self.logarithmic else value


def _point(
    place: int, entry: DefenseEntry, cost: UtilityCost, axis: Axis, plain: UtilityCost | None
) -> Point:
    utility, leak = cost.metrics[axis.metric], entry.strongest.value
    return Point(
        number=place,
        defense=entry.defense,
        leak=entry.strongest,
        complete=entry.case.complete,
        lacking=entry.case.missing,
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
