"""The static leaderboard: from a results directory to pages that open from a folder, offline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmark.leaks import leaks
from benchmark.prices import prices
from benchmark.registry import Broken, Entry
from benchmark.suites import Suite
from leaderboard.catalogue import Catalogue, from_registry
from leaderboard.pages import render_pages
from leaderboard.publish import check_target, publish
from leaderboard.rows import load
from leaderboard.views import Leaderboard


def render(results: Path, out: Path, catalogue: Catalogue) -> Path:
    """Draw the site of all records below `results` into `out` and return its `index.html`.

    The same results and catalogue give the same bytes. A former site in `out` is replaced only
    once every page is made; a folder that is not a former site is left alone.

    Raises:
        UserError: results are missing or corrupt, or `out` is not ours to replace.
    """
    check_target(out, results)
    board = Leaderboard(load(results), catalogue, leaks(results), prices(results))
    pages = render_pages(board)
    publish(pages, out)
    return out / "index.html"


def render_all(
    results: Path,
    out: Path,
    *,
    suites: Iterable[Suite],
    entries: Iterable[Entry],
    broken: Iterable[Broken],
) -> Path:
    """`render` with what the registry knows: what the command line calls."""
    return render(results, out, from_registry(suites, entries, broken))
