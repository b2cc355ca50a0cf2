"""Privacy against utility: every defense of a task as a point, the worst case over its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmark.metrics.table import METRICS
from benchmark.results.schema import MetricValue, PanelMember, StrongestAttack
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import DefenseBoard, DefenseEntry, main_boards
from leaderboard.data.ranking import NO_DEFENSE

UtilityCosts = Mapping[tuple[str, str], UtilityCost]


@dataclass(frozen=True)
class Point:
    """One defense with what it leaves and what it costs."""

    defense: str
    leak: StrongestAttack
    complete: bool
    """Whether it has faced the whole panel; if not, it may leave more than is shown."""
    lacking: tuple[PanelMember, ...]
    cost: UtilityCost
    utility: MetricValue
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

    @property
    def same_batch(self) -> bool:
        """Whether the updates that are attacked are of the size of those that train."""
        return matches_training(self.task)

    @property
    def front(self) -> tuple[Point, ...]:
        """The Pareto front, from the least leak to the best utility."""
        return tuple(sorted((p for p in self.points if p.front), key=lambda p: p.leak.value.mean))


def matches_training(task: TaskRow) -> bool:
    """Whether a task attacks updates of as many sentences as its training makes them from."""
    return task.batch_tokens is None and task.batch_size == task.trained_batch


def trade_offs(
    task: TaskRow, boards: Iterable[DefenseBoard], costs: UtilityCosts
) -> tuple[TradeOff, ...]:
    """One trade-off plot for each seed on which at least two defenses have both numbers."""
    own = main_boards(task.name, task.family, boards)
    made = (_trade_off(task, board, costs) for board in own)
    return tuple(each for each in made if each is not None)


def trained_costs(task: TaskRow, costs: UtilityCosts) -> dict[str, UtilityCost]:
    """What each defense costs where the model of a task was trained with it."""
    trained = task.trained_as or task.name
    return {d: cost for (name, d), cost in costs.items() if name == trained and cost.metrics}


def utility_metric(task: TaskRow, measured: Mapping[str, UtilityCost]) -> str | None:
    """The first of the task's utility metrics that any training has."""
    known = {name for cost in measured.values() for name in cost.metrics}
    return next((metric for metric in task.utility if metric in known), None)


def slowdown(cost: UtilityCost | None, plain: UtilityCost | None) -> float | None:
    """Time of an update under a defense against that of an undefended client."""
    own = cost.metrics.get("step_seconds") if cost else None
    base = plain.metrics.get("step_seconds") if plain else None
    return own.mean / base.mean if own and base and base.mean else None


def _trade_off(task: TaskRow, board: DefenseBoard, costs: UtilityCosts) -> TradeOff | None:
    measured = trained_costs(task, costs)
    utility = utility_metric(task, measured)
    both = [
        (entry, measured[entry.defense])
        for entry in board.entries
        if entry.defense in measured and utility in measured[entry.defense].metrics
    ]
    if utility is None or len(both) < 2:
        return None
    both.sort(key=lambda item: _point_order(item[0]))
    plain = measured.get(NO_DEFENSE)
    points = [_point(entry, cost, cost.metrics[utility], plain) for entry, cost in both]
    higher = METRICS[utility].direction == "higher"
    marked = tuple(replace(p, front=_on_front(p, points, 1 if higher else -1)) for p in points)
    seeds = both[0][1].seeds
    return TradeOff(task, board.seed, board.metric, utility, seeds, board.panel, marked)


def _point_order(entry: DefenseEntry) -> tuple[bool, float, str]:
    return entry.defense != NO_DEFENSE, entry.strongest.value.mean, entry.defense


def _on_front(point: Point, points: Sequence[Point], sign: int) -> bool:
    """No other complete point is at least as good in both ways and better in one."""

    def standing(each: Point) -> tuple[float, float]:
        return sign * each.utility.mean, -each.leak.value.mean

    def dominates(other: Point) -> bool:
        pairs = list(zip(standing(other), standing(point), strict=True))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    return point.complete and not any(dominates(other) for other in points if other.complete)


def _point(
    entry: DefenseEntry, cost: UtilityCost, utility: MetricValue, plain: UtilityCost | None
) -> Point:
    return Point(
        defense=entry.defense,
        leak=entry.strongest,
        complete=entry.case.complete,
        lacking=entry.case.missing,
        cost=cost,
        utility=utility,
        slowdown=slowdown(cost, plain),
    )
