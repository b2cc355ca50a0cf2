"""The static leaderboard: from a results directory to pages that open from a folder, offline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import Broken
from benchmark.results.utility_summary import utility_costs
from benchmark.suites import Suite
from leaderboard.data.catalog import Catalog, from_registry
from leaderboard.data.rows import load
from leaderboard.render.pages import render_pages
from leaderboard.render.publish import check_target, publish
from leaderboard.views.board import Leaderboard


def render(
    results: Path, out: Path, catalog: Catalog, running: tuple[int, int] | None = None
) -> Path:
    """Draw the site of all records below `results` into `out` and return its `index.html`.

    The same results and catalog give the same bytes. A former site in `out` is replaced only
    once every page is made; a folder that is not a former site is left alone. While a run goes
    on, `running` holds how many of its cells have ended, and how many there are.

    Raises:
        UserError: results are missing or corrupt, or `out` is not ours to replace.
    """
    check_target(out, results)
    board = Leaderboard(load(results, catalog.baselines), catalog, utility_costs(results))
    pages = render_pages(board, running)
    publish(pages, out)
    return out / "index.html"


def render_all(
    results: Path,
    out: Path,
    *,
    suites: Iterable[Suite],
    entries: Iterable[Entry],
    broken: Iterable[Broken],
    running: tuple[int, int] | None = None,
) -> Path:
    """`render` with what the registry knows: what the command line calls."""
    return render(results, out, from_registry(suites, entries, broken), running)
