"""The templates' surroundings: functions that pages call, styles, scripts and their policy."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leaderboard.data.ordering import family_title, stem
from leaderboard.data.ranking import RULE, Ranking
from leaderboard.figures.draw import Figure
from leaderboard.render.diff import shown
from leaderboard.render.formatting import citation, heat, number, position, shortened, size
from leaderboard.render.phrases import phrase, phrases
from leaderboard.render.slugs import (
    cell_page,
    matrix_page,
    slug,
    submission_page,
    suite_page,
    task_page,
)
from leaderboard.views.board import Leaderboard, describe, metric_columns
from leaderboard.views.examples import examples
from leaderboard.views.filters import batch_of, panel_facts, told_of


@dataclass(frozen=True)
class Asset:
    """A style or a script as pages carry it, and the hash by which the policy knows it."""

    text: Markup
    hash: str


def templates() -> Environment:
    """Templates that escape everything they are given and fail on a name nobody defined."""
    return Environment(
        loader=PackageLoader("leaderboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shortened,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def make_environment(board: Leaderboard) -> Environment:
    """The templates of a site, with everything that its pages ask for."""
    environment = templates()
    style, slim = asset(environment, "style.css"), asset(environment, "core.css")
    script = asset(environment, "site.js")
    environment.globals |= {
        "board": board,
        "newest": newest(board),
        "style": style.text,
        "slim_style": slim.text,
        "script": script.text,
        "policy": content_policy(style, script),
        "slim_policy": content_policy(slim),
        "describe": describe,
        "examples": examples,
        "family_title": family_title,
        "batch_of": batch_of,
        "baselines": board.catalog.baselines,
        "cell_page": cell_page,
        "citation": citation,
        "heat": heat,
        "inline": inline,
        "matrix_page": matrix_page,
        "metric_columns": metric_columns,
        "number": number,
        "panel_facts": panel_facts,
        "phrase": phrase,
        "phrases": phrases,
        "position": position,
        "rank_rule": RULE,
        "shown_words": shown,
        "size": size,
        "slug": slug,
        "stem": stem,
        "submission_page": submission_page,
        "suite_page": suite_page,
        "task_page": task_page,
        "told_of": told_of,
        "top": scale_top,
        "version_of": board.current_version,
    }
    return environment


def inline(figure: Figure) -> Markup:
    """A figure's drawing, which is clean already, as part of a page."""
    return Markup(figure.svg)


def asset(environment: Environment, name: str) -> Asset:
    """A style or a script from its template, without the comments of a template."""
    text = environment.get_template(name).render()
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return Asset(Markup(text), f"'sha256-{base64.b64encode(digest).decode('ascii')}'")


def content_policy(style: Asset, script: Asset | None = None) -> str:
    """Only our own style and script run, known by their hashes; nothing is loaded, ever."""
    allowed = f"script-src {script.hash}; " if script else ""
    return (
        f"default-src 'none'; style-src {style.hash}; {allowed}img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def scale_top(ranking: Ranking) -> float:
    """Where the bars of a ranking end: at 1, or further where an interval does."""
    return max([1.0, *(entry.value.high for entry in ranking.entries)])


def newest(board: Leaderboard) -> str:
    """The day of the newest record, because pages must not depend on the clock."""
    days = [row.record.provenance.created.strftime("%Y-%m-%d") for row in board.rows]
    return max(days, default="")
