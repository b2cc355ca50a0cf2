"""`leakboard orderings`: which side the papers find better, tested on our snapshots."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import RESULTS, Device, Jobs, Results, TimeLimit, folder
from benchmark.errors import UserError
from benchmark.paths import ROOT

if TYPE_CHECKING:
    from benchmark.plugins.catalog import Catalog
    from benchmark.results.orderings import ComparedOrdering, Ordering, OrderingSide
    from benchmark.runs.plan import Cell

FOLDER = ROOT / "leaderboard" / "reported" / "orderings"
FILES = {"mini": FOLDER / "orderings.json", "open": FOLDER / "open.json"}
"""The claims that are tested on each suite."""
FIELDS = (
    "claim", "paper", "metric", "better", "worse", "mean_better", "mean_worse", "difference",
    "low", "high", "snapshots", "p", "verdict",
)  # fmt: skip
INTRODUCTION = """\
# Orderings of the papers

Which side the papers find better, on the `{suite}` suite with {seeds}. Made by
`leakboard orderings`; no figure is typed by hand, and the same figures are in
[{name}.csv]({name}.csv). Differences are paired snapshot by snapshot where both sides
attack the same sentences (sign-flip test), else the two samples are compared as they are
(permutation test); n counts the snapshots that both sides have, or those of each. p values carry
Holm's correction over the whole list; *holds* and *reversed* mean p ≤ 0.05. Gradient matching
takes the papers' 2,000 to 2,500 steps where it has a plain name, 400 as `_quick` and 80 to 120 as
`_brief`.
"""
Row = Mapping[str, str]
SEEDS = "100-103"


def orderings(
    results: Results = RESULTS,
    seeds: Annotated[str, typer.Option(help="First and last seed.")] = SEEDS,
    jobs: Jobs = 0,
    device: Device = "auto",
    time_limit: TimeLimit = 600.0,
    out: Annotated[
        Path | None, typer.Option(help="Document to write, with a CSV beside it.", parser=folder)
    ] = None,
    suite: Annotated[str, typer.Option(help="Suite to test them on.")] = "mini",
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing; take the seeds that both sides have.")
    ] = False,
) -> None:
    """Test the papers' orderings on our snapshots; what is missing is run first."""
    from benchmark.cli.pages import score_records
    from benchmark.cli.session import execute, find_catalogs, open_engine
    from benchmark.results.orderings import compare_orderings

    claims, drawn = load(suite), numbers(seeds)
    out = out or Path("docs") / f"{_name(suite)}.md"
    with open_engine(jobs, device, results) as engine:
        catalogs = find_catalogs(engine)
        sides = {side for claim in claims for side in (claim.better, claim.worse)}
        paths = {
            (side.label, seed): _path(side, suite, seed, *catalogs, results)
            for side in sides
            for seed in drawn
        }
        missing = [] if stored else _cells(sides, suite, drawn, catalogs, results)
        failed = execute(engine, missing, time_limit, 0.0, out=sys.stdout)
    failed += score_records(results)
    measured = [(claim, *_both_sides(claim, drawn, paths, stored)) for claim in claims]
    rows = [row(tested) for tested in compare_orderings(measured)]
    with out.with_suffix(".csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    out.write_text(document(rows, seeds, suite), encoding="utf-8")
    print(f"{len(rows)} orderings in {out}")
    if failed:
        raise typer.Exit(1)


def numbers(seeds: str) -> range:
    """A range of seeds as it is typed, `100-103`."""
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", seeds)
    if match is None or int(match[2]) < int(match[1]):
        raise UserError(f"--seeds {seeds!r} is no range; write the first and last, as in {SEEDS}.")
    return range(int(match[1]), int(match[2]) + 1)


def _name(suite: str) -> str:
    """Of the document and its CSV file."""
    return "orderings" if suite == "mini" else f"orderings-{suite}"


def load(suite: str = "mini") -> list[Ordering]:
    """The claims that are stored."""
    from benchmark.errors import unknown_name
    from benchmark.files import read_model
    from benchmark.results.orderings import Orderings

    if suite not in FILES:
        raise unknown_name("suite with orderings", suite, FILES)
    return read_model(FILES[suite], Orderings).orderings


def _path(
    side: OrderingSide, suite: str, seed: int, attacks: Catalog, defenses: Catalog, results: Path
) -> Path:
    """Where the record of a side lies, or would lie; nothing is loaded for that."""
    from benchmark.plugins.selection import choose
    from benchmark.results.store import cell_path

    (attack,) = choose(attacks, "attack", side.attack)
    (defense,) = choose(defenses, "defense", side.defense)
    return cell_path(results, f"{suite}/{side.task}", defense.name, attack.name, seed)


def _cells(
    sides: Iterable[OrderingSide],
    suite: str,
    seeds: range,
    catalogs: tuple[Catalog, Catalog],
    results: Path,
) -> list[Cell]:
    """Everything that has to be run, each cell once."""
    from benchmark.runs.plan import Selection, plan_cells

    cells: dict[Path, Cell] = {}
    for side in sorted(sides, key=lambda side: side.label):
        for seed in seeds:
            wanted = Selection(suite, side.task, side.attack, side.defense, seed)
            cells |= {cell.path: cell for cell in plan_cells(wanted, *catalogs, results)}
    return list(cells.values())


Values = dict[tuple[int, int], float]
"""A score by seed and snapshot."""


def _both_sides(
    claim: Ordering, seeds: range, paths: Mapping[tuple[str, int], Path], stored: bool
) -> tuple[Values, Values]:
    """Scores of the seeds that both sides have; of stored ones that are not paired, all.

    Where everything was to be run, a seed that one side lacks has failed, and nothing is compared.
    """
    sides = [
        {seed: values for seed in seeds if (values := _values(paths[side.label, seed], claim))}
        for side in (claim.better, claim.worse)
    ]
    shared = [seed for seed in seeds if all(seed in side for side in sides)]
    if not stored and len(shared) < len(seeds):
        return {}, {}
    taken = set(shared) if claim.paired or not stored else set(seeds)
    better, worse = (
        {(seed, i): value for seed in side.keys() & taken for i, value in enumerate(side[seed])}
        for side in sides
    )
    return better, worse


def _values(record: Path, claim: Ordering) -> list[float]:
    """Score of each snapshot; empty where there is none."""
    from benchmark.files import read_model
    from benchmark.results.schema import Score
    from benchmark.results.store import score_path

    path = score_path(record)
    score = read_model(path, Score) if path.exists() else None
    return score.metrics[claim.metric].values if score and claim.metric in score.metrics else []


def row(tested: ComparedOrdering) -> Row:
    """A tested ordering as text."""
    claim = tested.ordering
    return {
        "claim": claim.claim,
        "paper": claim.paper,
        "metric": claim.metric,
        "better": claim.better.label,
        "worse": claim.worse.label,
        "mean_better": _figure(tested.better),
        "mean_worse": _figure(tested.worse),
        "difference": _figure(tested.difference),
        "low": _figure(tested.low),
        "high": _figure(tested.high),
        "snapshots": _count(tested),
        "p": "" if tested.p_value is None else f"{tested.p_value:.2g}",
        "verdict": tested.verdict,
    }


def _count(tested: ComparedOrdering) -> str:
    counts = dict.fromkeys((tested.snapshots, tested.snapshots_worse))
    return ", ".join(map(str, counts))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def document(rows: Sequence[Row], seeds: str = SEEDS, suite: str = "mini") -> str:
    """The rows as Markdown."""
    first, _, last = seeds.partition("-")
    words = f"seed {first}" if first == last else f"seeds {first} to {last}"
    lines = [INTRODUCTION.format(seeds=words, suite=suite, name=_name(suite)), *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| claim | metric | better side | worse side | difference | n | p | verdict |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in rows:
        bounds = f" [{each['low']}, {each['high']}]" if each["low"] else ""
        cells = (
            f"{each['claim']} ({each['paper']})",
            each["metric"],
            f"{each['better']}: {each['mean_better']}",
            f"{each['worse']}: {each['mean_worse']}",
            f"{each['difference']}{bounds}",
            each["snapshots"],
            each["p"],
            each["verdict"],
        )
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
