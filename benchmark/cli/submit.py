"""`leakboard submit` and `leakboard import`: the results of a submission as one file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import (
    RESULTS,
    Device,
    Jobs,
    MemoryLimit,
    MoreSubmissions,
    Results,
    TimeLimit,
    folder,
)
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.exchange.official import OfficialPlan, Planner
    from benchmark.execution.engines.local import LocalEngine
    from benchmark.plugins.registry import Kind
    from benchmark.plugins.selection import ConfiguredSubmission

MOST_REFUSALS = 20
"""Reasons that are printed of a package that is refused."""
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="100 or above.")]
SuiteName = Annotated[str, typer.Option(help="Suite whose plan it is run on.")]
OutFile = Annotated[Path | None, typer.Option(help="File to write.", parser=folder, metavar="FILE")]
Package = Annotated[
    Path, typer.Argument(help="What `leakboard submit` wrote.", parser=folder, metavar="FILE")
]


def submit(
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", help="The submission.")],
    suite: SuiteName = "mini",
    seed: Seed = 100,
    results: Results = Path("submission-results"),
    out: OutFile = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Only print what to run, for a cluster.")
    ] = False,
    jobs: Jobs = 0,
    device: Device = "auto",
    time_limit: TimeLimit = 600.0,
    memory_limit: MemoryLimit = 0.0,
    submissions: MoreSubmissions = None,
) -> None:
    """Run the official plan for a submission and pack its records into one file.

    What has a current record in the results folder is not run again, so a run on a cluster is
    packed by the same command.
    """
    from benchmark.cli.session import execute, open_engine
    from benchmark.conformance.target import add_path, is_path
    from benchmark.exchange import package
    from benchmark.exchange.official import check_seed

    check_seed(seed)
    path = add_path(name) if is_path(name) else None
    with open_engine(jobs, device, results) as engine:
        planner = _planner(engine, suite, seed, results)
        submission = choose_submission(planner, _name_of(planner, path) if path else name)
        plan = planner.plan(submission)
        if plan_only:
            _print_plan(plan, package.commands(plan, submission.name, suite, seed, str(results)))
            return
        failed = execute(engine, [*plan.cells, *plan.trials], time_limit, memory_limit)
    target = out or package.default_file(submission.name, suite, seed)
    package.write_package(target, package.pack(submission, plan, suite, seed))
    print(f"{len(plan.cells) + len(plan.trials)} records in {target}; docs/submitting.md goes on.")
    if failed:
        raise typer.Exit(1)


def _print_plan(plan: OfficialPlan, commands: list[str]) -> None:
    """What to run, as commands that may go to different machines."""
    every = len(plan.cells) + len(plan.trials)
    print(f"{every} cells, {len(plan.missing)} of them to run. Run these, with one results folder:")
    for command in commands:
        print(f"  {command}")
    print("then `leakboard submit` with the same --results packs what they made.")


def import_(
    file: Package,
    results: Results = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Replace records that exist.")] = False,
    submissions: MoreSubmissions = None,
) -> None:
    """Take over the records of a package, if everything about it fits.

    Schema, sizes, the official plan, digests of code and snapshots, and token ids are checked
    first. Where something does not fit, every reason is printed and nothing is written.
    """
    from benchmark.cli.session import open_engine
    from benchmark.exchange.admission import Admission
    from benchmark.exchange.package import read_package

    package = read_package(file)
    with open_engine(1, "cpu", results) as engine:
        planner = _planner(engine, package.suite, package.seed, results)
    submission = choose_submission(planner, package.submission, package.kind)
    admission = Admission(package, submission, planner.plan(submission))
    reasons = list(admission.refusals()) or (list(admission.existing()) if not force else [])
    if reasons:
        _refuse(file, reasons)
    count = admission.store()
    print(f"{count} records of {submission.name} are in {results}.")
    print(f"Repeat some of them: leakboard verify {results} --sample 3")


def _refuse(file: Path, reasons: list[str]) -> None:
    """Print every reason, a sentence each, and end."""
    from benchmark.cli.text import printable

    for reason in reasons[:MOST_REFUSALS]:
        print(f"refused: {printable(reason)}.", file=sys.stderr)
    if len(reasons) > MOST_REFUSALS:
        print(f"refused: {len(reasons) - MOST_REFUSALS} more reasons.", file=sys.stderr)
    raise UserError(f"{file} does not fit, and nothing was written.")


def _planner(engine: LocalEngine, suite: str, seed: int, results: Path) -> Planner:
    from benchmark.cli.session import find_catalogs
    from benchmark.exchange.official import Planner
    from benchmark.plugins.registry import get_suite

    return Planner(get_suite(suite), *find_catalogs(engine), seed, results)


def choose_submission(
    planner: Planner, name: str, kind: Kind | None = None
) -> ConfiguredSubmission:
    """The one submission that a name stands for, among the attacks and then the defenses."""
    from benchmark.exchange.official import choose_one

    plain = name.partition("[")[0]
    defense = plain in planner.defenses.names() and plain not in planner.attacks.names()
    if kind == "defense" or (kind is None and defense):
        return choose_one("defense", planner.defenses, name)
    return choose_one("attack", planner.attacks, name)


def _name_of(planner: Planner, path: Path) -> str:
    """What the submission at a path calls itself."""
    for catalog in (planner.attacks, planner.defenses):
        for entry in catalog.entries.values():
            if Path(entry.reference) == path:
                return entry.name
        for item in catalog.broken:
            if Path(item.where).name == path.name:
                raise UserError(f"{item.where} is broken: {item.reason}.")
    raise UserError(f"{path} holds no submission; `leakboard check {path}` tells why.")
