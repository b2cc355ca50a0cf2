"""`leakboard report`: the results as one document, every figure of it from records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli.options import RESULTS, Results, folder

Row = Mapping[str, str]
FIELDS = (
    "part", "task", "defense", "attack", "metric", "rank", "mean", "low", "high", "n", "seconds",
    "remark",
)  # fmt: skip
INTRODUCTION = """\
# Results

Made by `leakboard report` from the records of `make leaderboard`; no figure is typed by hand. The
same figures are in [results.csv](results.csv). Intervals are of 95 %; attacks that cannot be told
apart share a rank.
"""


def report(
    results: Results = RESULTS,
    out: Annotated[
        Path, typer.Option(help="Document to write, with a CSV beside it.", parser=folder)
    ] = Path("docs/results.md"),
) -> None:
    """Write the scored results as one document and as CSV beside it."""
    from benchmark.cli.session import need_folder

    need_folder(results)
    rows = list(collect(results))
    table = out.with_suffix(".csv")
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    out.write_text(document(rows), encoding="utf-8")
    print(f"{len(rows)} figures in {out} and {table}")


def collect(results: Path) -> Iterator[Row]:
    """Every figure: rankings, the worst case of each defense, and what each defense costs."""
    from benchmark.plugins.registry import standings
    from benchmark.results.utility_summary import utility_costs
    from benchmark.results.worst_case import worst_cases

    for place in standings(results):
        figures = _figures(place.mean, place.low, place.high) if place.metric else {}
        yield _row(
            "attacks", place.task, place.defense, attack=place.attack, metric=place.metric,
            rank=f"{place.rank}{'=' if place.shared else ''}" if place.metric else "",
            seconds="" if place.seconds is None else f"{place.seconds:.3g}",
            remark="" if place.status == "ok" else f"{place.status}: {place.reason}", **figures,
        )  # fmt: skip
    for (task, defense), case in sorted(worst_cases(results).items()):
        for metric, worst in case.worst.items():
            figures = _figures(worst.value.mean, worst.value.low, worst.value.high, worst.value.n)
            remark = f"of {worst.rivals}"
            yield _row("worst case", task, defense, attack=worst.attack, metric=metric,
                       remark=remark, **figures)  # fmt: skip
    for (task, defense), cost in sorted(utility_costs(results).items()):
        for metric, value in cost.metrics.items():
            figures = _figures(value.mean, value.low, value.high, value.n)
            remark = "" if cost.epsilon is None else f"ε = {cost.epsilon:.3g}"
            yield _row("utility", task, defense, metric=metric, remark=remark, **figures)


def _figures(mean: float, low: float, high: float, n: int | None = None) -> dict[str, str]:
    found = {"mean": f"{mean:.4g}", "low": f"{low:.4g}", "high": f"{high:.4g}"}
    return found | ({} if n is None else {"n": str(n)})


def _row(part: str, task: str, defense: str, **values: str) -> Row:
    given = {"part": part, "task": task, "defense": defense} | values
    return {name: " ".join(given.get(name, "").split()) for name in FIELDS}


def document(rows: Sequence[Row]) -> str:
    """The rows as Markdown: a table for each task, then worst cases and utility."""
    return "\n".join([INTRODUCTION, *_attacks(rows), *_worst(rows), *_utility(rows)]) + "\n"


def _attacks(rows: Sequence[Row]) -> Iterator[str]:
    """Every ranking, task by task."""
    yield "## Attacks\n"
    mine = [row for row in rows if row["part"] == "attacks"]
    for task, of_task in groupby(mine, key=lambda row: row["task"]):
        yield f"### {task}\n"
        yield from _table(
            ("defense", "metric", "rank", "attack", "mean [low, high]", "s", ""),
            [
                (row["defense"], row["metric"], row["rank"], row["attack"], _interval(row),
                 row["seconds"], row["remark"])
                for row in of_task
            ],
        )  # fmt: skip


def _worst(rows: Sequence[Row]) -> Iterator[str]:
    """What the strongest attack reaches under each defense, where there is one."""
    yield "## Worst case of each defense\n"
    wanted = ("rougeL", "type_f1")
    mine = [row for row in rows if row["part"] == "worst case" and row["metric"] in wanted]
    yield from _table(
        ("task", "defense", "metric", "strongest attack", "mean [low, high]", "attacks tried"),
        [
            (row["task"], row["defense"], row["metric"], row["attack"], _interval(row),
             row["remark"].removeprefix("of "))
            for row in mine if row["defense"] != "none"
        ],
    )  # fmt: skip


def _utility(rows: Sequence[Row]) -> Iterator[str]:
    """What training with each defense is worth."""
    yield "## Utility of each defense\n"
    yield from _table(
        ("task", "defense", "metric", "mean [low, high]", "seeds", ""),
        [
            (row["task"], row["defense"], row["metric"], _interval(row), row["n"], row["remark"])
            for row in rows if row["part"] == "utility"
        ],
    )  # fmt: skip


def _interval(row: Row) -> str:
    return f"{row['mean']} [{row['low']}, {row['high']}]" if row["mean"] else ""


def _table(names: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"
    yield ""
