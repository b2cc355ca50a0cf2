"""`leakboard show`: the rankings of each task, or what each defense costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from benchmark.cli.options import RESULTS, Csv, Globs, Json, Results
from benchmark.errors import unknown_name

if TYPE_CHECKING:
    from benchmark.plugins.registry import Standing
    from benchmark.results.utility_summary import UtilityCost

FIGURES = 52
"""Columns that rank and figures take; the rest is for the attack's name."""
COSTS = ("step_seconds", "bytes_up")
Thing = TypeVar("Thing")


def show(
    results: Results = RESULTS,
    task: Globs = None,
    attack: Globs = None,
    defense: Globs = None,
    as_json: Json = False,
    as_csv: Csv = False,
    utility: Annotated[bool, typer.Option("--utility", help="What each defense costs.")] = False,
    metric: Annotated[str, typer.Option(help="Rank by this metric instead.")] = "",
) -> None:
    """Show a ranking for each task, defense and seed.

    The best attack comes first, with the best baseline on the same snapshots beside it; attacks
    that cannot be told apart share a rank.
    """
    from benchmark.cli.output import emit, output_format
    from benchmark.cli.session import need_folder
    from benchmark.plugins.registry import standings
    from benchmark.results import scoring
    from benchmark.results.utility_summary import utility_costs

    form = output_format(as_json, as_csv)
    need_folder(results)
    if metric:
        check_metric(metric)
    asked = {"task": task, "defense": defense} | ({} if utility else {"attack": attack})
    if utility:
        costs = matching(list(utility_costs(results).values()), asked, _attribute)
        whole = [_cost_row(cost) for cost in costs]
        emit([_flat(row) for row in whole], form, lambda: utility_lines(costs), whole)
    elif form == "text":
        found = matching(standings(results, metric or None), asked, _attribute)
        emit([], form, lambda: ranking_lines(found))
    else:
        rows = matching(scoring.rows(results), asked, lambda row, key: str(row[key]))
        emit([_flat(row) for row in rows], form, list, rows)


def check_metric(name: str) -> None:
    """Refuse what is no recovery metric of boards, with the nearest names."""
    from benchmark.metrics.table import METRICS, on_boards

    known = [m for m in METRICS if METRICS[m].kind == "recovery" and on_boards(m)]
    if name not in known:
        raise unknown_name("recovery metric", name, known)


def matching(
    things: Sequence[Thing], asked: Mapping[str, str | None], name: Callable[[Thing, str], str]
) -> list[Thing]:
    """The things whose names were asked for; a name that nothing has is a mistake."""
    from benchmark.plugins.selection import split_names

    kept = list(things)
    for key, patterns in asked.items():
        if patterns is None:
            continue
        known = {name(thing, key) for thing in things}
        for pattern in split_names(patterns, ","):
            if not any(_fits(each, pattern) for each in known):
                short = {each.partition("/")[2] for each in known if "/" in each}
                raise unknown_name(f"{key} among these results", pattern, known | short)
        wanted = split_names(patterns, ",")
        kept = [thing for thing in kept if any(_fits(name(thing, key), p) for p in wanted)]
    return kept


def _attribute(thing: object, key: str) -> str:
    return str(getattr(thing, key))


def _fits(name: str, pattern: str) -> bool:
    """Whether a glob means a name, or the part of it behind the suite; `[key=value]` is literal."""
    names = (name, name.partition("/")[2])
    if pattern.endswith("]") and "=" in pattern:
        return pattern in names
    return any(fnmatchcase(each, pattern) for each in names)


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """A row with `<metric>`, `<metric>_low` and so on instead of nested metrics."""
    metrics = row["metrics"]
    assert isinstance(metrics, Mapping)
    flat = {key: value for key, value in row.items() if key != "metrics"}
    for name, value in metrics.items():
        flat |= {name: value["mean"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        if value.get("baseline") is not None:
            flat[f"{name}_baseline"] = value["baseline"]
    return flat


def _cost_row(cost: UtilityCost) -> dict[str, object]:
    metrics = {name: v.model_dump(exclude={"values"}) for name, v in cost.metrics.items()}
    return vars(cost) | {"metrics": metrics}


# ------------------------------------------------------------------------------------------- text


def ranking_lines(found: Sequence[Standing]) -> Iterator[str]:
    """For each task and defense the ranking by each metric, and why some attacks have no rank."""
    from benchmark.cli import text
    from benchmark.metrics.paired import RULE

    if not found:
        yield "There are no results yet; `leakboard run` makes some."
    size = max((len(s.attack) for s in found if len(s.attack) <= text.width() - FIGURES), default=0)
    several = len({s.seed for s in found}) > 1
    key = attrgetter("task", "version", "defense", "seed", "current")
    for place, (_, group) in enumerate(groupby(found, key)):
        if place:
            yield ""
        board = list(group)
        yield _heading(board[0], several)
        for metric, rows in groupby(board, attrgetter("metric")):
            ranked = list(rows)
            yield from _ranked(metric, ranked, size) if metric else _unranked(ranked, size)
        yield from _cut(board)
    if any(s.metric for s in found):
        yield ""
        yield from text.wrapped(f"{RULE} baseline: the best of those that only guess.")


def _heading(first: Standing, several_seeds: bool) -> str:
    version = f" (version {first.version})" if first.version > 1 else ""
    defense = "no defense" if first.defense == "none" else f"under {first.defense}"
    seed = f", seed {first.seed}" if several_seeds else ""
    return f"{first.task}{version}, {defense}{seed}{'' if first.current else ', former snapshots'}"


def _ranked(metric: str, rows: Sequence[Standing], size: int) -> Iterator[str]:
    from benchmark.cli import text

    cells = [("", f"by {_title(metric)}", "mean", "baseline", "interval", "seconds")]
    for row in rows:
        rank = f"{'=' if row.shared else ''}{row.rank}"
        guess = "" if row.guess is None else f"{row.guess:.3f}"
        spread = f"{row.low:.3f} to {row.high:.3f}"
        cells.append((rank, row.attack, f"{row.mean:.3f}", guess, spread, _seconds(row.seconds)))
    yield from text.aligned(cells, {0, 2, 3}, name=1, least={0: 4, 1: size})
    if not rows[0].decidable:
        few = f"{rows[0].n} snapshots are too few to tell any of {len(rows)} attacks apart"
        yield from text.wrapped(few, " " * 6)


def _cut(rows: Sequence[Standing]) -> Iterator[str]:
    """Each attack that handed over early because the time limit was near, once."""
    from benchmark.cli import text

    for attack, count in dict.fromkeys((row.attack, row.cut) for row in rows if row.cut):
        plural = "" if count == 1 else "s"
        yield from text.wrapped(
            f"{attack}: {count} snapshot{plural} cut by the time limit", " " * 6
        )


def _title(metric: str) -> str:
    from benchmark.metrics.table import METRICS

    return METRICS[metric].title if metric in METRICS else metric


def _unranked(rows: Sequence[Standing], size: int) -> Iterator[str]:
    from benchmark.cli import text

    cells = [
        ("–", row.attack, f"{row.status}: {row.reason}" if row.reason else row.status)
        for row in rows
    ]
    yield from text.aligned(
        [("", "without a rank", ""), *cells], {0}, name=1, least={0: 4, 1: size}
    )


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f}" if seconds < 100 else f"{seconds:.0f}"


def utility_lines(costs: Sequence[UtilityCost]) -> Iterator[str]:
    """For each task and metric what training with each defense is worth, and what it costs."""
    if not costs:
        yield "Nothing was trained yet; `leakboard run --utility` does."
    for place, (task, group) in enumerate(groupby(costs, attrgetter("task"))):
        listed = list(group)
        names = dict.fromkeys(name for cost in listed for name in cost.metrics)
        if place:
            yield ""
        seeds = ", ".join(map(str, listed[0].seeds))
        yield f"{task}, over training seeds {seeds}" if seeds else task
        for metric in (name for name in names if name not in COSTS):
            yield from _trained(metric, [cost for cost in listed if metric in cost.metrics])
        yield from _untrained([cost for cost in listed if not cost.metrics])


def _trained(metric: str, costs: Sequence[UtilityCost]) -> Iterator[str]:
    from benchmark.cli import text
    from benchmark.metrics.table import METRICS

    upward = metric not in METRICS or METRICS[metric].direction == "higher"
    ordered = sorted(costs, key=lambda cost: cost.metrics[metric].mean, reverse=upward)
    head = (f"by {_title(metric)}", "mean", "interval", "s/update", "MB/update", "ε")
    cells = [_cost_cells(cost, metric) for cost in ordered]
    yield from text.aligned([head, *cells], {1, 3, 4}, indent=2)


def _cost_cells(cost: UtilityCost, metric: str) -> tuple[str, ...]:
    value = cost.metrics[metric]
    step, sent = (cost.metrics.get(name) for name in COSTS)
    return (
        cost.defense,
        f"{value.mean:.3f}",
        f"{value.low:.3f} to {value.high:.3f}" if value.n > 1 else "n = 1",
        f"{step.mean:.4f}" if step else "",
        f"{sent.mean / 1e6:.2f}" if sent else "",
        "" if cost.epsilon is None else f"{cost.epsilon:.3g}",
    )


def _untrained(costs: Sequence[UtilityCost]) -> Iterator[str]:
    from benchmark.cli import text

    said = [(cost, "" if cost.status == "ok" else f"{cost.status}: ") for cost in costs]
    cells = [(cost.defense, f"{status}{cost.reason}") for cost, status in said]
    yield from text.aligned(cells, indent=2)
