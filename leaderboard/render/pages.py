"""Renders every page to a string. Nothing here touches the disk beyond reading templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import Environment

from benchmark.metrics.table import Kind as MetricKind
from benchmark.metrics.table import of_kind
from leaderboard.data.catalog import SubmissionRow, TaskRow
from leaderboard.data.ranking import SENTENCE_METRIC, TYPE_METRIC, Board
from leaderboard.data.tidy import COLUMNS
from leaderboard.figures.draw import Figure, to_csv
from leaderboard.figures.federated_charts import federated_curves, partition
from leaderboard.figures.gallery import SuiteFigures, suite_figures, trade_off_figure
from leaderboard.figures.timing_chart import ratio_history
from leaderboard.render.environment import make_environment
from leaderboard.render.matrix_tables import matrix_rows, missing_rows
from leaderboard.render.page_tables import (
    federated_rows,
    metric_rows,
    result_rows,
    setting_rows,
    snapshot_fields,
    timing_rows,
    worst_case_rows,
)
from leaderboard.render.slugs import (
    cell_page,
    matrix_page,
    slug,
    submission_page,
    suite_page,
    task_page,
)
from leaderboard.render.tables import attack_rows, defense_rows, paper_rows
from leaderboard.views.board import Leaderboard
from leaderboard.views.cells import cell_view, titles
from leaderboard.views.federated import partition_of
from leaderboard.views.filters import filter_options, matrix_options
from leaderboard.views.folding import dense_blocks
from leaderboard.views.hero import Hero
from leaderboard.views.matrix import missing_results
from leaderboard.views.papers import compared_tables
from leaderboard.views.suite import SuiteView
from leaderboard.views.timing import TimingHistory

KINDS: tuple[tuple[str, str, MetricKind], ...] = (
    (
        "Recovery",
        "How much private text came back; better is meant from the attack's side.",
        "recovery",
    ),
    ("Utility", "What a defense costs the model that is being trained.", "utility"),
    ("Cost", "What an attack or a defense costs whoever runs it.", "cost"),
)
REFRESH_SECONDS = 30
"""How often a browser looks for new results while a run goes on."""

Files = dict[str, str]


@dataclass
class Site:
    """What all pages of one rendering share; figures that pages draw are kept as files."""

    board: Leaderboard
    environment: Environment
    timing: TimingHistory | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: Files = field(default_factory=dict)
    _drawn: dict[str, SuiteFigures] = field(default_factory=dict)

    def render(self, template: str, **values: object) -> str:
        """One page."""
        return self.environment.get_template(template).render(**values)

    def suite_figures(self, view: SuiteView) -> SuiteFigures:
        """The figures of a suite, drawn once."""
        if view.name not in self._drawn:
            self._drawn[view.name] = suite_figures(view)
            for each in self._drawn[view.name].all:
                self.keep(each)
        return self._drawn[view.name]

    def keep(self, figure: Figure) -> Figure:
        """A figure that a page shows."""
        self.figures[figure.name] = figure
        return figure

    @property
    def files(self) -> Files:
        """The figures and tables as files of their own."""
        found: Files = dict(self.tables)
        for name, figure in sorted(self.figures.items()):
            found[f"figures/{name}.svg"] = figure.svg + "\n"
            found[f"figures/{name}.csv"] = figure.csv
        return found


def render_pages(
    board: Leaderboard, running: tuple[int, int] | None = None, timing: TimingHistory | None = None
) -> Files:
    """All pages, figures and tables by their path below the site's root."""
    environment = make_environment(board)
    environment.globals |= {
        "running": running,
        "refresh_seconds": REFRESH_SECONDS,
        "has_timing": timing is not None,
    }
    site = Site(board, environment, timing)
    pages: Files = dict(_single_pages(site))
    for part in (_suites, _tasks, _submissions, _cells):
        pages |= part(site)
    return pages | site.files


def _single_pages(site: Site) -> Iterator[tuple[str, str]]:
    kinds = [(title, judged, of_kind(kind)) for title, judged, kind in KINDS]
    site.tables["data/metrics.csv"] = metric_rows()
    yield "metrics.html", site.render("metrics.html", root="", here="metrics", kinds=kinds)
    yield "federated.html", _federated(site)
    names = tuple(view.name for view in site.board.suites)
    compared = compared_tables(site.board.rows, site.board.utility_costs, names)
    for each in compared:
        site.tables[f"data/papers-{each.name}.csv"] = paper_rows(each)
    yield "papers.html", site.render("papers.html", root="", here="papers", tables=compared)
    yield "data.html", site.render("data.html", root="", here="data", columns=COLUMNS)
    if site.timing:
        yield "timing.html", _timing(site, site.timing)


def _timing(site: Site, history: TimingHistory) -> str:
    site.tables["data/timing.csv"] = timing_rows(history)
    figure = ratio_history(history)
    if figure:
        site.keep(figure)
    return site.render("timing.html", root="", here="timing", history=history, figure=figure)


def _federated(site: Site) -> str:
    tables = site.board.federated
    for table in tables:
        site.tables[f"data/federated-{slug(table.task)}.csv"] = federated_rows(table)
    curves = {
        table.task: site.keep(federated_curves(table, f"{slug(table.task)}-curves"))
        for table in tables
        if any(method.curve for method in table.methods)
    }
    drawn = {
        table.task: figure
        for view in site.board.suites
        for table, figure in site.suite_figures(view).federated
    }
    return site.render(
        "federated.html",
        root="",
        here="federated",
        tables=tables,
        figures=drawn,
        curves=curves,
    )


# ----------------------------------------------------------------------------------- front pages


def _suites(site: Site) -> Files:
    """A front page and a matrix for each suite; the first suite is the index."""
    pages: Files = {}
    views = site.board.suites or (site.board.no_suite,)
    for view in views:
        name = slug(view.name)
        site.tables[f"data/{name}-attacks.csv"] = attack_rows(view)
        site.tables[f"data/{name}-defenses.csv"] = defense_rows(view)
        values = _suite_values(site, view)
        if view is views[0]:
            pages["index.html"] = site.render("suite.html", root="", here="index", **values)
        pages[suite_page(view.name)] = site.render("suite.html", root="../", here="suite", **values)
        pages[matrix_page(view.name)] = _matrix(site, view)
    return pages


def _suite_values(site: Site, view: SuiteView) -> Mapping[str, object]:
    rows = site.board.rows
    machines = Counter(row.record.provenance.processor for row in rows)
    commits = Counter(row.record.provenance.git_commit[:10] for row in rows)
    return {
        "view": view,
        "hero": _hero(site, view),
        "figures": site.suite_figures(view),
        "filters": filter_options(view, site.board.told),
        "machines": [name for name, _ in machines.most_common(3)],
        "commits": [name for name, _ in commits.most_common(3)],
        "other_commits": max(0, len(commits) - 3),
        "listed": site.board.submissions,
    }


def _hero(site: Site, view: SuiteView) -> Hero | None:
    """The example of a suite, or of the first suite whose text may be shown."""
    return next((each.hero for each in (view, *site.board.suites) if each.hero), None)


def _matrix(site: Site, view: SuiteView) -> str:
    groups = []
    stem = f"data/{slug(view.name)}"
    for kind, matrices in (("attack", view.attacks), ("defense", view.defenses)):
        for matrix in matrices:
            table = f"{stem}-{kind}s-by-task-{matrix.metric.lower()}"
            site.tables[f"{table}.csv"] = matrix_rows(matrix, kind)
            groups.append((kind, matrix, dense_blocks(matrix, kind), table))
    missing = missing_results(view.attacks)
    if missing:
        site.tables[f"{stem}-missing.csv"] = missing_rows(missing)
    return site.render(
        "matrix_page.html",
        root="../",
        here="matrix",
        view=view,
        groups=groups,
        missing=missing,
        missing_table=f"{stem}-missing",
        filters=matrix_options(view, site.board.told),
    )


# ------------------------------------------------------------------------- tasks and submissions


def _tasks(site: Site) -> Files:
    return {task_page(task.name): _task(site, task) for task in site.board.tasks}


def _task(site: Site, task: TaskRow) -> str:
    board = site.board
    trade_offs = [
        (each, site.keep(trade_off_figure(each, board.strengths)))
        for each in board.trade_offs_of(task)
    ]
    boards, ranked = board.boards_of(task.name), board.defense_boards_of(task)
    clients = partition_of(task.name, board.utility_costs)
    stem = f"data/tasks/{slug(task.name)}"
    if boards:
        site.tables[f"{stem}.csv"] = result_rows(board.results_on(task.name))
    if ranked:
        site.tables[f"{stem}-defenses.csv"] = worst_case_rows(ranked)
    return site.render(
        "task.html",
        root="../",
        here="task",
        task=task,
        known=board.catalog.task(task.name) is not None,
        boards=boards,
        ranked=ranked,
        table=stem,
        trade_offs=trade_offs,
        alike=board.trained_alike(task),
        version=board.current_version(task.name),
        clients=clients,
        clients_figure=site.keep(partition(clients, f"{slug(task.name)}-clients"))
        if clients
        else None,
        digests=_digests(boards),
    )


def _digests(boards: tuple[Board, ...]) -> list[tuple[int, str]]:
    """Index and digest of each snapshot of the first board."""
    for row in boards[0].rows if boards else ():
        if row.record.snapshots:
            return [(result.index, result.digest) for result in row.record.snapshots]
    return []


def _submissions(site: Site) -> Files:
    pages: Files = {}
    for row in site.board.submissions:
        pages[submission_page(row.kind, row.name)] = _submission(site, row)
        if row.source.text:
            pages[f"sources/{row.kind}-{slug(row.name)}.txt"] = row.source.text
    return pages


def _submission(site: Site, submission: SubmissionRow) -> str:
    groups = site.board.results_of(submission)
    results = [result for _, group in groups for result in group]
    used = {name for result in results for name in result.entries}
    metrics = [name for name in (SENTENCE_METRIC, TYPE_METRIC) if name in used]
    stem = f"data/submissions/{submission.kind}-{slug(submission.name)}"
    if results:
        site.tables[f"{stem}.csv"] = result_rows(results, metrics)
    if submission.parameters or submission.variants or submission.departures:
        site.tables[f"{stem}-settings.csv"] = setting_rows(submission)
    return site.render(
        "submission.html",
        root="../",
        here="submission",
        submission=submission,
        known=site.board.catalog.submission(submission.kind, submission.name) is not None,
        groups=groups,
        results=results,
        metrics=metrics,
        table=stem,
        failures=[result for result in results if not result.entries or result.row.failed],
    )


# ----------------------------------------------------------------------------------------- cells


def _cells(site: Site) -> Files:
    """A small page for each cell: there may be thousands of them, so a task's share a CSV."""
    template = site.environment.get_template("cell.html")
    pages: Files = {}
    snapshots: dict[str, list[dict[str, object]]] = {}
    for board in site.board.boards:
        table = f"data/tasks/{slug(board.task)}"
        for row in board.rows:
            view = cell_view(row)
            snapshots.setdefault(table, []).extend(snapshot_fields(view))
            pages[cell_page(row.key)] = template.render(
                root="../../",
                here="cell",
                view=view,
                row=row,
                record=row.record,
                columns=titles(view.metrics),
                own_board=board,
                table=table,
            )
    site.tables |= {f"{table}-snapshots.csv": to_csv(rows) for table, rows in snapshots.items()}
    return pages
