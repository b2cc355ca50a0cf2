"""One ranked table of defenses: by task, what the strongest attack leaves and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.schema import MetricValue
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import DefenseBoard, DefenseEntry, main_boards
from leaderboard.data.ranking import NO_DEFENSE
from leaderboard.views.trade_off import (
    TradeOff,
    UtilityCosts,
    slowdown,
    trade_offs,
    trained_costs,
    utility_metric,
)

MOST_TASKS = 12
"""Tasks of a suite that the front page compares defenses on; all others have pages."""


@dataclass(frozen=True)
class RankedDefense:
    """One defense on one task."""

    entry: DefenseEntry
    utility: MetricValue | None
    """None where no model was trained with it."""
    slowdown: float | None
    """Time of an update against that of an undefended client."""
    bytes_up: float | None
    epsilon: float | None
    front: bool
    """On the Pareto front of the task."""
    untrained: str
    """Why there is no utility, where a training says so."""

    @property
    def tried(self) -> int:
        """Attacks of the panel that have shown what they can do."""
        return sum(member.tried for member in self.entry.case.panel)


@dataclass(frozen=True)
class DefendedTask:
    """The defenses of one task and seed, those that leave least first."""

    task: TaskRow
    board: DefenseBoard
    utility_metric: str | None
    defenses: tuple[RankedDefense, ...]
    trade_off: TradeOff | None

    @property
    def drawn(self) -> int:
        """Defenses with a place in the trade-off plot."""
        return len(self.trade_off.points) if self.trade_off else 0

    @property
    def plain(self) -> RankedDefense | None:
        """No defense at all."""
        return next((each for each in self.defenses if each.entry.defense == NO_DEFENSE), None)


def defended_tasks(
    tasks: Sequence[TaskRow], boards: Iterable[DefenseBoard], costs: UtilityCosts
) -> tuple[DefendedTask, ...]:
    """Tasks with several defenses, the fullest trade-offs first; of several seeds the fullest."""
    known = list(boards)
    found = []
    for task in tasks:
        own = main_boards(task.name, task.family, known)
        full = max(own, key=lambda board: (len(board.entries), -board.seed), default=None)
        if full and len(full.entries) > 1:
            found.append(_defended(task, full, costs))
    found.sort(key=lambda each: (-each.drawn, -len(each.defenses), each.task.name))
    return tuple(found[:MOST_TASKS])


def _defended(task: TaskRow, board: DefenseBoard, costs: UtilityCosts) -> DefendedTask:
    measured = trained_costs(task, costs)
    metric = utility_metric(task, measured)
    drawn = next((t for t in trade_offs(task, [board], costs) if t.seed == board.seed), None)
    front = {point.defense for point in drawn.front} if drawn else set()
    said = {d: c.reason for (name, d), c in costs.items() if name == (task.trained_as or task.name)}
    lines = tuple(
        _ranked_defense(entry, measured, metric, entry.defense in front, said)
        for entry in board.entries
    )
    return DefendedTask(task, board, metric, lines, drawn)


def _ranked_defense(
    entry: DefenseEntry,
    measured: Mapping[str, UtilityCost],
    metric: str | None,
    front: bool,
    said: Mapping[str, str],
) -> RankedDefense:
    cost = measured.get(entry.defense)
    traffic = cost.metrics.get("bytes_up") if cost else None
    return RankedDefense(
        entry=entry,
        utility=cost.metrics.get(metric) if cost and metric else None,
        slowdown=slowdown(cost, measured.get(NO_DEFENSE)),
        bytes_up=traffic.mean if traffic else None,
        epsilon=cost.epsilon if cost else None,
        front=front,
        untrained=said.get(entry.defense, "not trained"),
    )
