"""Renders every page to a string. Nothing here touches the disk beyond reading templates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmark.metrics.table import Kind as MetricKind
from benchmark.metrics.table import of_kind
from benchmark.results.schema import WorstCase
from leaderboard.data.catalog import SubmissionRow, TaskRow
from leaderboard.data.ordering import family_title, stem
from leaderboard.data.ranking import RULE, SENTENCE_METRIC, TYPE_METRIC, Ranking
from leaderboard.render.diff import shown
from leaderboard.render.formatting import heat, number, position
from leaderboard.render.phrases import phrase, phrases
from leaderboard.render.slugs import submission_page, task_page
from leaderboard.views.board import Leaderboard, describe, examples, metric_columns
from leaderboard.views.federated import HEIGHT, WIDTH, federated_tables
from leaderboard.views.matrix import missing_results

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


def render_pages(board: Leaderboard, running: tuple[int, int] | None = None) -> dict[str, str]:
    """All pages by their path below the site's root."""
    environment = make_environment(board)
    environment.globals |= {"running": running, "refresh_seconds": REFRESH_SECONDS}
    pages = {
        "index.html": _index(environment, board),
        "metrics.html": environment.get_template("metrics.html").render(
            root="",
            here="metrics",
            kinds=[(title, judged, of_kind(kind)) for title, judged, kind in KINDS],
        ),
        "federated.html": _federated(environment, board),
    }
    return (
        pages | dict(_task_pages(environment, board)) | dict(_submission_pages(environment, board))
    )


def make_environment(board: Leaderboard) -> Environment:
    """Templates that escape everything they are given and fail on a name nobody defined."""
    environment = Environment(
        loader=PackageLoader("leaderboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "board": board,
        "newest": _newest(board),
        "policy": content_policy(environment),
        "describe": describe,
        "examples": examples,
        "family_title": family_title,
        "baselines": board.catalog.baselines,
        "heat": heat,
        "metric_columns": metric_columns,
        "number": number,
        "phrase": phrase,
        "phrases": phrases,
        "position": position,
        "rank_rule": RULE,
        "shown_words": shown,
        "missing_results": missing_results,
        "stem": stem,
        "submission_page": submission_page,
        "task_page": task_page,
        "top": scale_top,
        "version_of": board.current_version,
    }
    return environment


def content_policy(environment: Environment) -> str:
    """Only our own style and script run, known by their hashes; nothing is loaded, ever."""
    style, script = (source_hash(environment, name) for name in ("style.css", "sort.js"))
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def source_hash(environment: Environment, name: str) -> str:
    """What a content policy knows a style or a script by."""
    text = environment.get_template(name).render()
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def scale_top(ranking: Ranking) -> float:
    """Where the bars of a ranking end: at 1, or further where an interval does."""
    return max([1.0, *(entry.value.high for entry in ranking.entries)])


def _newest(board: Leaderboard) -> str:
    """The day of the newest record, because pages must not depend on the clock."""
    days = [row.record.provenance.created.strftime("%Y-%m-%d") for row in board.rows]
    return max(days, default="")


def _index(environment: Environment, board: Leaderboard) -> str:
    return environment.get_template("index.html").render(
        root="",
        here="index",
        attacks=[row for row in board.submissions if row.kind == "attack"],
        defenses=[row for row in board.submissions if row.kind == "defense"],
    )


def _federated(environment: Environment, board: Leaderboard) -> str:
    names = [task.name for task in board.tasks if task.family == "federated"]
    return environment.get_template("federated.html").render(
        root="",
        here="federated",
        tables=federated_tables(names, _first_seed(board.worst_cases), board.utility_costs),
        width=WIDTH,
        height=HEIGHT,
    )


def _first_seed(cases: Iterable[WorstCase]) -> dict[tuple[str, str], WorstCase]:
    """One worst case for each task and defense, all of the task's first seed."""
    found = list(cases)
    first = {case.task: min(c.seed for c in found if c.task == case.task) for case in found}
    return {(case.task, case.defense): case for case in found if case.seed == first[case.task]}


def _task_pages(environment: Environment, board: Leaderboard) -> Iterator[tuple[str, str]]:
    for task in board.tasks:
        yield task_page(task.name), _task(environment, board, task)


def _task(environment: Environment, board: Leaderboard, task: TaskRow) -> str:
    return environment.get_template("task.html").render(
        root="../",
        here="task",
        task=task,
        known=board.catalog.task(task.name) is not None,
        boards=board.boards_of(task.name),
        ranked=board.defense_boards_of(task),
        trade_offs=board.trade_offs_of(task),
        alike=board.trained_alike(task),
        version=board.current_version(task.name),
    )


def _submission_pages(environment: Environment, board: Leaderboard) -> Iterator[tuple[str, str]]:
    for row in board.submissions:
        yield submission_page(row.kind, row.name), _submission(environment, board, row)


def _submission(environment: Environment, board: Leaderboard, submission: SubmissionRow) -> str:
    groups = board.results_of(submission)
    results = [result for _, group in groups for result in group]
    used = {name for result in results for name in result.entries}
    return environment.get_template("submission.html").render(
        root="../",
        here="submission",
        submission=submission,
        known=board.catalog.submission(submission.kind, submission.name) is not None,
        groups=groups,
        results=results,
        metrics=[name for name in (SENTENCE_METRIC, TYPE_METRIC) if name in used],
        failures=[result for result in results if not result.entries or result.row.failed],
    )
