"""What each page shows, gathered from rows, boards, catalog and the table of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from benchmark.metrics.table import METRICS, Metric, on_boards
from benchmark.plugins.registry import Kind
from benchmark.results.schema import WorstCase
from leaderboard.data.catalog import Catalog, SubmissionRow, SuiteRow, TaskRow
from leaderboard.data.defenses import DefenseBoard, defense_boards, worst_cases_of
from leaderboard.data.ordering import by_family, task_order
from leaderboard.data.ranking import Board, Entry, Guess, boards, main_metrics
from leaderboard.data.rows import Row
from leaderboard.views.federated import FederatedTable, federated_tables, first_seed
from leaderboard.views.series import Strength, strengths
from leaderboard.views.suite import SuiteView
from leaderboard.views.trade_off import TradeOff, UtilityCosts, matches_training, trade_offs

FIRST_SUITES = ("open",)
"""Suites that come first where they have results."""


def describe(name: str) -> Metric:
    """A metric from the table; one that the table lacks is shown under its own name."""
    unknown = "This version's table of metrics does not have it."
    return METRICS.get(name) or Metric(name, name, "", "higher", "recovery", unknown)


@dataclass(frozen=True)
class Result:
    """A row with its ranks by metric, for a submission's page."""

    row: Row
    entries: dict[str, Entry]
    guesses: Mapping[str, Guess]
    """The best baseline of the same board, by metric."""


@dataclass(frozen=True)
class Leaderboard:
    """All results beside the catalog; the pages are views of this."""

    rows: tuple[Row, ...]
    catalog: Catalog
    utility_costs: UtilityCosts = field(default_factory=dict)

    def trade_offs_of(self, task: TaskRow) -> tuple[TradeOff, ...]:
        """Privacy against utility on one task, a plot for each seed."""
        return trade_offs(task, self.defense_boards, self.utility_costs)

    def trained_alike(self, task: TaskRow) -> tuple[TaskRow, ...]:
        """Other tasks of the same training, attacked at its own batch size."""
        same = (t for t in self.tasks if task.trained_as and t.trained_as == task.trained_as)
        return tuple(t for t in same if t != task and matches_training(t))

    @cached_property
    def worst_cases(self) -> tuple[WorstCase, ...]:
        """The worst case of each defense and seed, on current versions and snapshots."""
        panels = {task.name: task.panel for task in self.catalog.tasks}
        current = [board for board in self.boards if self._is_current(board)]
        return worst_cases_of(current, panels)

    @cached_property
    def defense_boards(self) -> tuple[DefenseBoard, ...]:
        """Defenses ranked by their worst case."""
        metrics = main_metrics("")
        return tuple(board for m in metrics for board in defense_boards(self.worst_cases, m))

    def defense_boards_of(self, task: TaskRow) -> tuple[DefenseBoard, ...]:
        """Those of one task that compare several defenses."""
        metrics = main_metrics(task.family)
        own = (b for b in self.defense_boards if b.task == task.name and b.metric in metrics)
        return tuple(board for board in own if len(board.entries) > 1)

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """All boards, by task, newest version first."""
        return boards(self.rows, {task.name: task.family for task in self.catalog.tasks})

    @cached_property
    def sandboxes(self) -> tuple[tuple[str, int], ...]:
        """What kept submissions from the truth, with the number of results, the commonest first."""
        found = Counter(row.record.provenance.sandbox for row in self.rows)
        return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def told(self) -> dict[str, tuple[str, ...]]:
        """What each attack was handed in any of its results, as far as these tell."""
        found: dict[str, set[str]] = {}
        for row in self.rows:
            if row.record.told is not None:
                found.setdefault(row.attack, set()).update(row.record.told)
        return {attack: tuple(sorted(facts)) for attack, facts in found.items()}

    @cached_property
    def tasks(self) -> tuple[TaskRow, ...]:
        """Tasks by family and size; those that only records name come last."""
        known = {task.name for task in self.catalog.tasks}
        strange = {row.task for row in self.rows} - known
        listed = [*self.catalog.tasks, *(TaskRow(name, "", "") for name in strange)]
        return tuple(sorted(listed, key=task_order))

    @cached_property
    def submissions(self) -> tuple[SubmissionRow, ...]:
        """Attacks, then defenses; those that only records name come last of their kind."""
        listed = [self._submissions_of("attack"), self._submissions_of("defense")]
        return tuple(submission for part in listed for submission in part)

    def _submissions_of(self, kind: Kind) -> tuple[SubmissionRow, ...]:
        known = [row for row in self.catalog.submissions if row.kind == kind]
        named = {r.record.attack if kind == "attack" else r.record.defense for r in self.rows}
        strange = sorted(named - {row.name for row in known})
        return (*known, *(SubmissionRow(kind, name, "") for name in strange))

    def current_version(self, task: str) -> int:
        """The newest version of a task that the catalog or a record knows."""
        known = self.catalog.task(task)
        versions = [board.version for board in self.boards_of(task)]
        return max([*versions, known.version if known else 1])

    def boards_of(self, task: str) -> tuple[Board, ...]:
        """The boards of a task, all versions and seeds."""
        return self._boards_by_task.get(task, ())

    @cached_property
    def _boards_by_task(self) -> dict[str, tuple[Board, ...]]:
        return {task: tuple(own) for task, own in groupby(self.boards, key=lambda b: b.task)}

    @cached_property
    def suites(self) -> tuple[SuiteView, ...]:
        """The suites that have tasks; those with results first, the real corpora before others."""
        known = {suite.name: suite for suite in self.catalog.suites}
        names = dict.fromkeys([*known, *(task.name.split("/")[0] for task in self.tasks)])
        views = [self._suite(known.get(name) or SuiteRow(name, "")) for name in names]
        shown = (view for view in views if view.tasks)
        return tuple(sorted(shown, key=lambda v: (not v.boards, v.name not in FIRST_SUITES)))

    @property
    def no_suite(self) -> SuiteView:
        """What a site without any task shows."""
        return self._suite(SuiteRow("mini", ""))

    def _suite(self, suite: SuiteRow) -> SuiteView:
        tasks = tuple(task for task in self.tasks if task.name.split("/")[0] == suite.name)
        names = {task.name for task in tasks}
        return SuiteView(
            suite,
            tasks,
            tuple(b for t in tasks for b in self.boards_of(t.name) if self._is_current(b)),
            tuple(board for board in self.defense_boards if board.task in names),
            self.utility_costs,
            self.strengths,
            tuple(table for table in self.federated if table.task in names),
        )

    @cached_property
    def strengths(self) -> dict[str, Strength]:
        """Every defense as a kind and how strong it is."""
        return strengths(self.rows, self.catalog)

    @cached_property
    def federated(self) -> tuple[FederatedTable, ...]:
        """Federated methods side by side, by task."""
        names = [task.name for task in self.tasks if task.family == "federated"]
        return federated_tables(names, first_seed(self.worst_cases), self.utility_costs)

    def _is_current(self, board: Board) -> bool:
        return board.current and board.version == self.current_version(board.task)

    def results_of(self, submission: SubmissionRow) -> tuple[tuple[str, tuple[Result, ...]], ...]:
        """Every row in which an attack or a defense took part, by family and task, best first."""
        groups = [
            (family, tuple(r for t in tasks for r in self._results(t.name, submission)))
            for family, tasks in by_family(self.tasks)
        ]
        return tuple((family, results) for family, results in groups if results)

    def _results(self, task: str, submission: SubmissionRow) -> Iterator[Result]:
        return (each for each in self.results_on(task) if _took_part(each.row, submission))

    def results_on(self, task: str) -> tuple[Result, ...]:
        """Every row of a task with its ranks, board by board."""
        return self._results_by_task.get(task, ())

    @cached_property
    def _results_by_task(self) -> dict[str, tuple[Result, ...]]:
        return {
            task: tuple(Result(r, _entries_of(b, r), b.guesses) for b in own for r in b.rows)
            for task, own in self._boards_by_task.items()
        }


def _entries_of(board: Board, row: Row) -> dict[str, Entry]:
    return {r.metric: entry for r in board.rankings for entry in r.entries if entry.row is row}


def _took_part(row: Row, submission: SubmissionRow) -> bool:
    record = row.record
    return submission.name == (record.attack if submission.kind == "attack" else record.defense)


def metric_columns(rows: Iterable[Row]) -> tuple[Metric, ...]:
    """The metrics that any of the rows has, in the order of the table."""
    names = {name for row in rows if row.score for name in row.score.metrics if on_boards(name)}
    strange = sorted(names - METRICS.keys())
    return tuple(describe(name) for name in [*(n for n in METRICS if n in names), *strange])
