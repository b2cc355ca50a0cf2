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
from leaderboard.data.ranking import TYPE_METRIC, Board, Entry, Guess, boards, main_metrics
from leaderboard.data.rows import Row
from leaderboard.render.diff import Word, compare, count
from leaderboard.views.matrix import Matrix
from leaderboard.views.overview import attack_matrix, defense_matrix
from leaderboard.views.trade_off import (
    TradeOff,
    UtilityCosts,
    matches_training,
    overview_trade_offs,
    trade_offs,
)

EXAMPLE_SENTENCES = 3


def describe(name: str) -> Metric:
    """A metric from the table; one that the table lacks is shown under its own name."""
    unknown = "This version's table of metrics does not have it."
    return METRICS.get(name) or Metric(name, name, "", "higher", "recovery", unknown)


@dataclass(frozen=True)
class ExampleView:
    """One private sentence and what each attack made of it."""

    index: int
    """The snapshot it comes from."""
    truth: str
    words: int
    """Words of the private sentence that could be found."""
    answers: tuple[tuple[Row, tuple[Word, ...]], ...]


@dataclass(frozen=True)
class Result:
    """A row with its ranks by metric, for a submission's page."""

    row: Row
    entries: dict[str, Entry]
    guesses: Mapping[str, Guess]
    """The best baseline of the same board, by metric."""


@dataclass(frozen=True)
class SuiteView:
    """A suite on the front page."""

    suite: SuiteRow
    tasks: tuple[TaskRow, ...]
    attacks: tuple[Matrix, ...]
    """Sentences first, but a matrix that shows nothing beside baselines comes last."""
    defenses: tuple[Matrix, ...]
    """Empty where only undefended updates were attacked."""
    trade_offs: tuple[TradeOff, ...] = ()
    """Of the tasks that were trained themselves and, where it was attacked, of the variant at the
    training's batch size; variants share the cost."""

    @property
    def families(self) -> tuple[tuple[str, tuple[TaskRow, ...]], ...]:
        """The tasks by family."""
        return by_family(self.tasks)


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
        """The suites that have tasks; those with results first."""
        known = {suite.name: suite for suite in self.catalog.suites}
        names = dict.fromkeys([*known, *(task.name.split("/")[0] for task in self.tasks)])
        views = [self._suite(known.get(name) or SuiteRow(name, "")) for name in names]
        return tuple(sorted((v for v in views if v.tasks), key=lambda view: not view.attacks))

    def _suite(self, suite: SuiteRow) -> SuiteView:
        tasks = tuple(task for task in self.tasks if task.name.split("/")[0] == suite.name)
        made = [b for t in tasks for b in self.boards_of(t.name) if self._is_current(b)]
        metrics = [m for m in main_metrics("") if any(_ranks_by(b, m) for b in made)]
        selected = {m: [t for t in tasks if m in main_metrics(t.family)] for m in metrics}
        attacks = [attack_matrix(m, selected[m], made) for m in metrics]
        if made and not attacks:
            attacks = [attack_matrix(TYPE_METRIC, tasks, made)]
        attacks.sort(key=lambda matrix: not matrix.contested)
        several = len({board.defense for board in made}) > 1
        ranked = self.defense_boards
        defenses = tuple(defense_matrix(m, selected[m], made, ranked) for m in metrics if several)
        drawn = overview_trade_offs(tasks, ranked, self.utility_costs)
        return SuiteView(suite, tasks, tuple(attacks), defenses, drawn)

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
        for board in self.boards_of(task):
            for row in board.rows:
                if _took_part(row, submission):
                    yield Result(row, _entries_of(board, row), board.guesses)


def _ranks_by(board: Board, metric: str) -> bool:
    return any(ranking.metric == metric for ranking in board.rankings)


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


def examples(rows: Iterable[Row]) -> tuple[ExampleView, ...]:
    """The first private sentences of a board, each with the answers of all attacks below it."""
    groups: dict[tuple[int, str], list[tuple[Row, tuple[Word, ...]]]] = {}
    for row in rows:
        for example in row.score.examples if row.score and row.measured else ():
            answer = (row, compare(example.truth, example.recovered))
            groups.setdefault((example.index, example.truth), []).append(answer)
    first = sorted(groups)[:EXAMPLE_SENTENCES]
    return tuple(
        ExampleView(index, truth, count(truth), tuple(groups[index, truth]))
        for index, truth in first
    )
