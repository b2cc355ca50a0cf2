"""`leakboard run`: the cells that are not there yet become records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import (
    RESULTS,
    Device,
    Globs,
    Jobs,
    MemoryLimit,
    MoreSubmissions,
    Results,
    Seed,
    Submissions,
    TimeLimit,
    folder,
)
from benchmark.errors import UserError
from benchmark.suites import NO_DEFENSE

if TYPE_CHECKING:
    from benchmark.cli.live import LiveSite
    from benchmark.execution.engines.engine import Engine
    from benchmark.plugins.catalog import Catalog
    from benchmark.plugins.registry import Broken
    from benchmark.runs.plan import Cell, Selection
    from benchmark.runs.utility_plan import Trial

SiteFolder = Annotated[
    Path | None,
    typer.Option(help="Score and render here as cells end.", parser=folder, metavar="PATH"),
]
EngineName = Annotated[str, typer.Option(help="local, or ray: the nodes of a Ray cluster.")]
Address = Annotated[
    str | None,
    typer.Option(help="Ray: host:port of the cluster, or auto; none: this machine alone."),
]
Cpus = Annotated[int | None, typer.Option(min=1, max=4096, help="Ray: CPUs a cell asks for.")]
WeakestSandbox = Annotated[
    str | None,
    typer.Option(help="Ray: the weakest sandbox that a node may have; none: the one here."),
]


def run(
    suite: Annotated[str, typer.Option(help="Suite to run.")] = "mini",
    task: Globs = None,
    attack: Submissions = None,
    defense: Submissions = None,
    results: Results = RESULTS,
    shard: Annotated[
        str | None, typer.Option(help="Only the i-th of n parts of the plan.", metavar="I/N")
    ] = None,
    site: SiteFolder = None,
    more: Annotated[
        bool, typer.Option("--more", help="With --site: more follows, which renders.")
    ] = False,
    jobs: Jobs = 0,
    device: Device = "auto",
    seed: Seed = 0,
    time_limit: TimeLimit = 600.0,
    memory_limit: MemoryLimit = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Run cells that are there, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    utility: Annotated[
        bool, typer.Option("--utility", help="Train with each defense instead of attacking it.")
    ] = False,
    with_utility: Annotated[
        bool, typer.Option("--with-utility", help="Train with each defense, too, after attacking.")
    ] = False,
    trainings: Annotated[
        int, typer.Option(min=1, max=100, help="Seeds that defenses train with, from --seed on.")
    ] = 3,
    submissions: MoreSubmissions = None,
    engine: EngineName = "local",
    address: Address = None,
    cpus: Cpus = None,
    sandbox: WeakestSandbox = None,
) -> None:
    """Run the cells that are not there yet.

    Every cell becomes a record. A broken submission is left out and named at the end, and the exit
    code is 1 where that happened or a cell failed.
    """
    from benchmark.cli.session import ClusterOptions, execute, find_catalogs, name_broken
    from benchmark.plugins.registry import check_site
    from benchmark.runs.plan import Selection, plan_cells
    from benchmark.runs.shards import Shard, take_shard
    from benchmark.runs.utility_plan import plan_utility

    if utility and attack:
        raise UserError("--utility trains without an attack; leave --attack out.")
    if utility and with_utility:
        raise UserError("--utility is training alone; leave it out, or --with-utility.")
    part = None if shard is None else Shard.parse(shard)
    if site is not None:
        check_site(results, site)
    choice = Selection(suite, task, attack, defense, seed, force, trainings)
    options = ClusterOptions(engine, address, cpus, sandbox)
    with options.open(jobs, device, memory_limit, results) as workers:
        catalogs = find_catalogs(workers)
        trained = replace(choice, defense=_defense(choice))
        if dry_run and _print_forecast(
            None if utility else choice, trained if utility or with_utility else None, catalogs
        ):
            return
        cells: list[Cell | Trial] = []
        if not utility:
            cells += plan_cells(choice, *catalogs, results)
        if utility or with_utility:
            cells += plan_utility(trained, catalogs[1], results)
        if part is not None:
            cells = take_shard(cells, part, results, write=not dry_run)
        if dry_run:
            failed = _print_plan(cells, workers)
        else:
            live = None if site is None else _live(results, site, catalogs, cells, more)
            failed = execute(workers, cells, time_limit, memory_limit, live)
            if live is not None and live.fine:
                print(
                    f"The leaderboard is at {(live.settings.out / 'index.html').resolve().as_uri()}"
                )
    broken = name_broken(_left_out(choice, catalogs, utility))
    if failed or broken:
        raise typer.Exit(1)


def _print_forecast(
    attacked: Selection | None, trained: Selection | None, catalogs: tuple[Catalog, Catalog]
) -> bool:
    """The plan of a suite whose weights may have to be downloaded first, without any of them."""
    from benchmark.paths import ROOT
    from benchmark.plugins.registry import get_suite
    from benchmark.runs.forecast import forecast, is_downloaded, lines
    from benchmark.runs.plan import plan_pairs
    from benchmark.runs.utility_plan import utility_pairs

    choice = attacked or trained
    assert choice is not None
    suite = get_suite(choice.suite)
    if not is_downloaded(suite):
        return False
    pairs = plan_pairs(attacked, *catalogs) if attacked else []
    trainings = utility_pairs(trained, catalogs[1]) if trained else []
    for task, attack, defense in pairs:
        print(f"to run  {task.name} · {attack.name} · {defense.name}")
    for task, defense in trainings:
        print(f"to run  {task.name} · utility · {defense.name}, {choice.trainings} seeds")
    for line in lines(forecast(suite, pairs, ROOT / RESULTS, trainings)):
        print(line)
    return True


def _print_plan(cells: Sequence[Cell | Trial], engine: Engine) -> int:
    from benchmark.cli.session import plan_line

    print(plan_line(cells, engine))
    for cell in cells:
        print(f"{'cached' if cell.cached else 'to run'}  {cell.label}")
    return 0


def _live(
    results: Path,
    out: Path,
    catalogs: tuple[Catalog, Catalog],
    cells: Sequence[Cell | Trial],
    more: bool,
) -> LiveSite:
    from benchmark.cli.listing import site_content
    from benchmark.cli.live import LiveSite, Settings

    settings = Settings(results, out, site_content(*catalogs), len(cells), more)
    return LiveSite(settings, done=sum(cell.cached for cell in cells))


def _left_out(
    choice: Selection, catalogs: tuple[Catalog, Catalog], utility: bool
) -> Iterable[Broken]:
    """What is broken of all that the run was to have."""
    from benchmark.cli.listing import broken_suites
    from benchmark.plugins.selection import broken_among

    attacks, defenses = catalogs
    if not utility:
        yield from broken_among(attacks, choice.attack)
    yield from broken_among(defenses, _defense(choice))
    yield from broken_suites()


def _defense(choice: Selection) -> str | None:
    """Of attacks that are named, no defense unless one is; None is what the suite's plan says."""
    return choice.defense or (NO_DEFENSE if choice.attack else None)
