"""A suite's front page and matrix as data, worked out when a page asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from leaderboard.data.catalog import SuiteRow, TaskRow
from leaderboard.data.defenses import DefenseBoard
from leaderboard.data.ordering import by_family
from leaderboard.data.ranking import NO_DEFENSE, TYPE_METRIC, Board, main_metrics
from leaderboard.views import findings
from leaderboard.views.attacks import AttackPanel, attack_panels
from leaderboard.views.defended import DefendedTask, defended_tasks
from leaderboard.views.federated import FederatedTable
from leaderboard.views.heat import HeatMap, heat_maps
from leaderboard.views.hero import Hero, hero
from leaderboard.views.matrix import Matrix
from leaderboard.views.overview import attack_matrix, defense_matrix
from leaderboard.views.series import (
    SeriesPoint,
    Strength,
    batch_series,
    progress_series,
    strength_series,
)
from leaderboard.views.trade_off import UtilityCosts


@dataclass(frozen=True)
class SuiteView:
    """One suite: its tasks, and everything that was measured on their current versions."""

    suite: SuiteRow
    tasks: tuple[TaskRow, ...]
    boards: tuple[Board, ...]
    ranked: tuple[DefenseBoard, ...]
    """Defenses by their worst case, of this suite."""
    costs: UtilityCosts
    strengths: dict[str, Strength]
    federated: tuple[FederatedTable, ...]

    @property
    def name(self) -> str:
        """Name of the suite."""
        return self.suite.name

    @property
    def families(self) -> tuple[tuple[str, tuple[TaskRow, ...]], ...]:
        """The tasks by family."""
        return by_family(self.tasks)

    @cached_property
    def hero(self) -> Hero | None:
        """The example at the top."""
        return hero(self.boards)

    @cached_property
    def panels(self) -> tuple[AttackPanel, ...]:
        """The ranked attacks by family."""
        return attack_panels(self.tasks, self.boards)

    @cached_property
    def defended(self) -> tuple[DefendedTask, ...]:
        """The ranked defenses by task."""
        return defended_tasks(self.tasks, self.ranked, self.costs)

    @cached_property
    def heat_maps(self) -> tuple[HeatMap, ...]:
        """Attack by defense for each family."""
        return heat_maps(self.tasks, self.boards)

    @cached_property
    def by_batch(self) -> tuple[SeriesPoint, ...]:
        """Leak against batch size."""
        return batch_series(self.tasks, self.boards)

    @cached_property
    def by_progress(self) -> tuple[SeriesPoint, ...]:
        """Leak against training progress."""
        return progress_series(self.tasks, self.boards)

    @cached_property
    def by_strength(self) -> dict[tuple[str, str], tuple[SeriesPoint, ...]]:
        """Worst case against the strength of each kind of defense."""
        return strength_series(self.ranked, self.strengths, self.tasks)

    @cached_property
    def findings(self) -> tuple[findings.Finding, ...]:
        """What the results support, at most as much as is read in a minute."""
        made = (
            findings.undefended(self.boards),
            findings.least_left(self.defended),
            findings.cheap(self.defended),
            findings.no_help(self.defended),
            findings.breaks(self.by_batch),
            findings.guessing(self.panels),
            findings.federated(self.federated),
        )
        return tuple(each for each in made if each)[: findings.MOST_FINDINGS]

    @cached_property
    def _metrics(self) -> tuple[str, ...]:
        used = {ranking.metric for board in self.boards for ranking in board.rankings}
        return tuple(metric for metric in main_metrics("") if metric in used)

    def _judged_by(self, metric: str) -> list[TaskRow]:
        return [task for task in self.tasks if metric in main_metrics(task.family)]

    @cached_property
    def attacks(self) -> tuple[Matrix, ...]:
        """Sentences first, but a matrix that shows nothing beside baselines comes last."""
        made = [attack_matrix(m, self._judged_by(m), self.boards) for m in self._metrics]
        if self.boards and not made:
            made = [attack_matrix(TYPE_METRIC, self.tasks, self.boards)]
        return tuple(sorted(made, key=lambda matrix: not matrix.contested))

    @cached_property
    def defenses(self) -> tuple[Matrix, ...]:
        """Empty where only undefended updates were attacked."""
        if not any(board.defense != NO_DEFENSE for board in self.boards):
            return ()
        return tuple(
            defense_matrix(m, self._judged_by(m), self.boards, self.ranked) for m in self._metrics
        )
