"""The static leaderboard: from a results directory to pages that open from a folder, offline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import Broken
from benchmark.results.utility_summary import utility_costs
from benchmark.suites import Suite
from leaderboard.data.catalog import Catalog, from_registry
from leaderboard.data.export import csv_bytes, dictionary_csv, parquet_bytes, results_table
from leaderboard.data.rows import load
from leaderboard.data.tidy import tidy_table
from leaderboard.render.pages import render_pages
from leaderboard.render.publish import check_target, publish
from leaderboard.render.tables import latex
from leaderboard.views.board import Leaderboard
from leaderboard.views.timing import load_timings


def render(
    results: Path,
    out: Path,
    catalog: Catalog,
    running: tuple[int, int] | None = None,
    timing: Sequence[Path] = (),
) -> Path:
    """Draw the site of all records below `results` into `out` and return its `index.html`.

    The same results and catalog give the same bytes. A former site in `out` is replaced only
    once every page is made; a folder that is not a former site is left alone. While a run goes
    on, `running` holds how many of its cells have ended, and how many there are. `timing` names
    JSON files of pytest-benchmark, or folders of them, which get a page.

    Raises:
        UserError: results are missing or corrupt, or `out` is not ours to replace.
    """
    check_target(out, results)
    timed = load_timings(timing)
    board = Leaderboard(load(results, catalog.baselines), catalog, utility_costs(results))
    publish({**render_pages(board, running, timed), **data_files(board)}, out)
    return out / "index.html"


def data_files(board: Leaderboard) -> dict[str, str | bytes]:
    """The tidy table of all results, and the dictionary of its columns."""
    newest = {task.name: board.current_version(task.name) for task in board.tasks}
    table = tidy_table(board.boards, board.catalog, board.utility_costs, newest)
    return {
        "data/results.csv": csv_bytes(table),
        "data/results.parquet": parquet_bytes(table),
        "data/dictionary.csv": dictionary_csv(),
    }


def render_all(
    results: Path,
    out: Path,
    *,
    suites: Iterable[Suite],
    entries: Iterable[Entry],
    broken: Iterable[Broken],
    running: tuple[int, int] | None = None,
    timing: Sequence[Path] = (),
) -> Path:
    """`render` with what the registry knows: what the command line calls."""
    return render(results, out, from_registry(suites, entries, broken), running, timing)


def export_all(
    results: Path,
    form: str,
    *,
    suites: Iterable[Suite],
    entries: Iterable[Entry],
    broken: Iterable[Broken],
) -> bytes:
    """The tidy table as `csv` or `parquet`, or the ranked tables as `latex`."""
    catalog = from_registry(suites, entries, broken)
    if form == "latex":
        rows = load(results, catalog.baselines)
        return latex(Leaderboard(rows, catalog, utility_costs(results)).suites).encode("utf-8")
    table = results_table(results, catalog)
    return parquet_bytes(table) if form == "parquet" else csv_bytes(table)
