"""`leakboard table`: a paper's own figures with ours beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import (
    RESULTS,
    Csv,
    Device,
    Jobs,
    Json,
    Results,
    Seed,
    TimeLimit,
    folder,
)
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.cli.output import Format
    from benchmark.cli.paper_tables import Line
    from benchmark.results.reported import Table


def table(
    name: Annotated[str, typer.Argument(help="One of the papers' tables; none: list them.")] = "",
    suite: Annotated[
        str | None, typer.Option(help="Suite that gives our rows; none: the table's own, or mini.")
    ] = None,
    rows: Annotated[
        str, typer.Option(help="Glob of the rows that are run; of others what is there is shown.")
    ] = "*",
    seed: Seed = 100,
    results: Results = RESULTS,
    jobs: Jobs = 0,
    device: Device = "auto",
    time_limit: TimeLimit = 600.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the rows as CSV here.", parser=folder, metavar="PATH"),
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show one of the papers' tables beside ours.

    What is missing of our rows is run first.
    """
    from benchmark.cli import paper_tables
    from benchmark.cli.output import emit, output_format, write_csv
    from benchmark.results import reported

    form = output_format(as_json, as_csv)
    if not name:
        _list(form)
        return
    wanted = reported.load(name)
    need_row(wanted, rows)
    asked = Asked(suite or wanted.suite or "mini", rows, seed)
    lines, failed = _measure(wanted, asked, results, jobs, device, time_limit, form)
    flat = paper_tables.flat(wanted, lines)
    emit(flat, form, lambda: comparison_lines(wanted, lines))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8", newline="") as stream:
            write_csv(flat, stream)
    if failed:
        raise typer.Exit(1)


def _list(form: Format) -> None:
    from benchmark.cli import text
    from benchmark.cli.output import emit
    from benchmark.results import reported

    tables = {name: reported.load(name) for name in reported.names()}
    rows = [
        {"name": n, "table": t.table, "title": t.title, "paper": t.paper} for n, t in tables.items()
    ]
    shown = [(name, t.table, f"{t.title} ({t.paper})") for name, t in tables.items()]
    emit(rows, form, lambda: text.aligned(shown))


@dataclass(frozen=True)
class Asked:
    """What of a table is to be measured."""

    suite: str
    rows: str
    """Glob of labels."""
    seed: int


def need_row(wanted: Table, rows: str) -> None:
    """Refuse a glob that no row of the table answers to."""
    if not any(fnmatch(row.label, rows) for row in wanted.rows):
        labels = ", ".join(row.label for row in wanted.rows[:3])
        raise UserError(f"No row of {wanted.table} is called {rows!r}; its rows begin: {labels}.")


def _measure(
    wanted: Table,
    asked: Asked,
    results: Path,
    jobs: int,
    device: str,
    time_limit: float,
    form: Format,
) -> tuple[list[Line], int]:
    """Run and score what is missing; returns our lines and how many cells failed."""
    from benchmark.cli import paper_tables
    from benchmark.cli.session import execute, find_catalogs, open_engine
    from benchmark.results import scoring

    progress = sys.stdout if form == "text" else sys.stderr
    with open_engine(jobs, device, results) as engine:
        catalogs = find_catalogs(engine)
        works = paper_tables.plan(wanted, asked.suite, *catalogs, results, asked.seed)
        run = [work for work in works if fnmatch(work.row.label, asked.rows)]
        cells = {work.cell.path: work.cell for work in run if work.cell is not None}
        trials = {trial.path: trial for work in run for trial in work.trials}
        failed = execute(engine, list(cells.values()), time_limit, 0.0, out=progress)
        failed += execute(engine, list(trials.values()), time_limit, 0.0, out=progress)
    for _ in scoring.score_all(results):
        pass
    return paper_tables.compare(wanted, works, results), failed


def comparison_lines(paper: Table, lines: Sequence[Line]) -> Iterator[str]:
    """A paper's figures and ours, a line for each row and metric."""
    from benchmark.cli import text

    yield from text.wrapped(f"{paper.table} of {paper.paper}")
    yield from text.wrapped(f"{paper.title} ({paper.setting}); theirs and ours", "  ")
    yield from text.wrapped(paper.remark, "  ")
    cells = [("", "metric", "theirs", "ours", "interval")]
    for line in lines:
        for place, metric in enumerate(paper.shown):
            cells.append(("" if place else line.label, metric, *_figures(line, metric)))
        if line.note:
            cells.append(("", "", "", "", line.note))
    yield from text.aligned(cells, {2, 3})


def _figures(line: Line, metric: str) -> tuple[str, str, str]:
    theirs, ours = line.reported.get(metric), line.ours.get(metric)
    epsilon = "" if line.epsilon is None else f", ε {line.epsilon:.3g}"
    return (
        "" if theirs is None else f"{theirs:.4g}",
        f"{ours.mean:.3f}" if ours else "",
        f"{ours.low:.3f} to {ours.high:.3f}{epsilon}" if ours else "",
    )
