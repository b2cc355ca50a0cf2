"""`leakboard report`: the results as one document, every figure of it from records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import RESULTS, Results, folder
from benchmark.cli.report_rows import FIELDS, Row, interval, markdown_table, row_figures, table_row

if TYPE_CHECKING:
    from benchmark.plugins.registry import Standing
    from benchmark.results.schema import WorstCase

INTRODUCTION = """\
# Results

Made by `leakboard report` from the records of `make leaderboard`; no figure is typed by hand. The
same figures are in [results.csv](results.csv). Intervals are of 95 %. Attacks on the same snapshots
are compared in pairs, and those that cannot be told apart share a rank; `baseline` is the best of
those that only guess. How: [methods](methods.md#intervals-ranks-and-means).
"""


def report(
    results: Results = RESULTS,
    out: Annotated[
        Path | None, typer.Option(help="Document to write, with a CSV beside it.", parser=folder)
    ] = None,
    suite: Annotated[str, typer.Option(help="Suite to report on.")] = "mini",
) -> None:
    """Write the scored results of a suite as one document and as CSV beside it.

    A suite that names topics gets a table for each, and tells what ran how long and what did not.
    """
    from benchmark.cli import suite_report
    from benchmark.cli.session import need_folder
    from benchmark.plugins.registry import get_suite
    from benchmark.results.worst_case import write_worst_cases

    need_folder(results)
    declared = get_suite(suite)
    write_worst_cases(results)  # published records come without
    out = out or Path("docs/results.md" if suite == "mini" else f"docs/results-{suite}.md")
    rows = [row for row in collect(results) if row["task"].startswith(f"{suite}/")]
    rows += suite_report.collect(results, declared)
    table = out.with_suffix(".csv")
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    out.write_text(document(rows, suite), encoding="utf-8")
    print(f"{len(rows)} figures in {out} and {table}")


def collect(results: Path) -> Iterator[Row]:
    """Every figure: rankings, the worst case of each defense, and what each defense costs."""
    from benchmark.plugins.registry import standings
    from benchmark.results.utility_summary import utility_costs
    from benchmark.results.worst_case import fullest, worst_cases

    for place in standings(results):
        if place.current:
            yield _standing(place)
    for case in fullest(case for _, case in sorted(worst_cases(results).items())):
        for metric, worst in case.worst.items():
            figures = row_figures(
                worst.value.mean, worst.value.low, worst.value.high, worst.value.n
            )
            yield table_row("worst case", case.task, case.defense, seed=str(case.seed),
                       attack=worst.attack, metric=metric, panel=_panel(case),
                       remark=f"of {worst.rivals}", **figures)  # fmt: skip
    for (task, defense), cost in sorted(utility_costs(results).items()):
        seeds = " ".join(map(str, cost.seeds))
        for metric, value in cost.metrics.items():
            figures = row_figures(value.mean, value.low, value.high, value.n)
            remark = "" if cost.epsilon is None else f"ε = {cost.epsilon:.3g}"
            yield table_row("utility", task, defense, seed=seeds, metric=metric, remark=remark,
                       **figures)  # fmt: skip


def _standing(place: Standing) -> Row:
    figures = row_figures(place.mean, place.low, place.high, place.n) if place.metric else {}
    return table_row(
        "attacks", place.task, place.defense, seed=str(place.seed), attack=place.attack,
        metric=place.metric,
        rank=f"{place.rank}{'=' if place.shared else ''}" if place.metric else "",
        baseline="" if place.guess is None else f"{place.guess:.4g}",
        seconds="" if place.seconds is None else f"{place.seconds:.3g}",
        remark="" if place.status == "ok" else f"{place.status}: {place.reason}", **figures,
    )  # fmt: skip


def _panel(case: WorstCase) -> str:
    """Whether the whole panel was tried, and who is missing."""
    if not case.panel:
        return "none declared"
    missing = ", ".join(f"{member.attack} {member.outcome}" for member in case.missing)
    return f"incomplete: {missing}" if missing else f"complete ({len(case.panel)})"


def document(rows: Sequence[Row], suite: str = "mini") -> str:
    """The rows as Markdown: topics, a table for each task, then worst cases and utility."""
    from benchmark.cli.suite_report import sections

    first = [INTRODUCTION] if suite == "mini" else sections(rows, suite)
    return "\n".join([*first, *_attacks(rows), *_worst(rows), *_utility(rows)]) + "\n"


def _attacks(rows: Sequence[Row]) -> Iterator[str]:
    """Every ranking, task by task."""
    yield "## Attacks\n"
    mine = [row for row in rows if row["part"] == "attacks"]
    for task, of_task in groupby(mine, key=lambda row: row["task"]):
        yield f"### {task}\n"
        yield from markdown_table(
            ("defense", "seed", "metric", "rank", "attack", "mean [low, high]", "baseline", "n",
             "s", ""),
            [
                (row["defense"], row["seed"], row["metric"], row["rank"], row["attack"],
                 interval(row), row["baseline"], row["n"], row["seconds"], row["remark"])
                for row in of_task
            ],
        )  # fmt: skip


def _worst(rows: Sequence[Row]) -> Iterator[str]:
    """What the strongest attack reaches under each defense, where there is one."""
    yield "## Worst case of each defense\n"
    wanted = ("rougeL", "type_f1")
    mine = [row for row in rows if row["part"] == "worst case" and row["metric"] in wanted]
    yield from markdown_table(
        ("task", "defense", "seed", "metric", "strongest attack", "mean [low, high]", "tried",
         "panel"),
        [
            (row["task"], row["defense"], row["seed"], row["metric"], row["attack"],
             interval(row), row["remark"].removeprefix("of "), row["panel"])
            for row in mine if row["defense"] != "none"
        ],
    )  # fmt: skip


def _utility(rows: Sequence[Row]) -> Iterator[str]:
    """What training with each defense is worth."""
    yield "## Utility of each defense\n"
    yield from markdown_table(
        ("task", "defense", "metric", "mean [low, high]", "seeds", ""),
        [
            (row["task"], row["defense"], row["metric"], interval(row), row["seed"], row["remark"])
            for row in rows if row["part"] == "utility"
        ],
    )  # fmt: skip
