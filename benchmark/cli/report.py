"""`leakboard report`: the results as one document, every figure of it from records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import RESULTS, Results, folder

if TYPE_CHECKING:
    from benchmark.plugins.registry import Standing
    from benchmark.results.schema import WorstCase

Row = Mapping[str, str]
FIELDS = (
    "part", "task", "defense", "seed", "attack", "metric", "rank", "mean", "low", "high", "n",
    "baseline", "seconds", "panel", "remark",
)  # fmt: skip
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
        if place.current:
            yield _standing(place)
    for (task, defense, seed), case in sorted(worst_cases(results).items()):
        for metric, worst in case.worst.items():
            figures = _figures(worst.value.mean, worst.value.low, worst.value.high, worst.value.n)
            yield _row("worst case", task, defense, seed=str(seed), attack=worst.attack,
                       metric=metric, panel=_panel(case), remark=f"of {worst.rivals}",
                       **figures)  # fmt: skip
    for (task, defense), cost in sorted(utility_costs(results).items()):
        seeds = " ".join(map(str, cost.seeds))
        for metric, value in cost.metrics.items():
            figures = _figures(value.mean, value.low, value.high, value.n)
            remark = "" if cost.epsilon is None else f"ε = {cost.epsilon:.3g}"
            yield _row("utility", task, defense, seed=seeds, metric=metric, remark=remark,
                       **figures)  # fmt: skip


def _standing(place: Standing) -> Row:
    figures = _figures(place.mean, place.low, place.high, place.n) if place.metric else {}
    return _row(
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
            ("defense", "seed", "metric", "rank", "attack", "mean [low, high]", "baseline", "n",
             "s", ""),
            [
                (row["defense"], row["seed"], row["metric"], row["rank"], row["attack"],
                 _interval(row), row["baseline"], row["n"], row["seconds"], row["remark"])
                for row in of_task
            ],
        )  # fmt: skip


def _worst(rows: Sequence[Row]) -> Iterator[str]:
    """What the strongest attack reaches under each defense, where there is one."""
    yield "## Worst case of each defense\n"
    wanted = ("rougeL", "type_f1")
    mine = [row for row in rows if row["part"] == "worst case" and row["metric"] in wanted]
    yield from _table(
        ("task", "defense", "seed", "metric", "strongest attack", "mean [low, high]", "tried",
         "panel"),
        [
            (row["task"], row["defense"], row["seed"], row["metric"], row["attack"],
             _interval(row), row["remark"].removeprefix("of "), row["panel"])
            for row in mine if row["defense"] != "none"
        ],
    )  # fmt: skip


def _utility(rows: Sequence[Row]) -> Iterator[str]:
    """What training with each defense is worth."""
    yield "## Utility of each defense\n"
    yield from _table(
        ("task", "defense", "metric", "mean [low, high]", "seeds", ""),
        [
            (row["task"], row["defense"], row["metric"], _interval(row), row["seed"], row["remark"])
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
