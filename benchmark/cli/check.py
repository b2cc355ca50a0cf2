"""`leakboard check`: the contract, tried on a submission, and every problem in one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import Csv, Json, MoreSubmissions

if TYPE_CHECKING:
    from benchmark.conformance.problems import Problem


def check(
    target: Annotated[str, typer.Argument(metavar="PATH|NAME", help="A file, a folder or a name.")],
    time_limit: Annotated[
        float,
        typer.Option(min=1, max=1e7, help="Seconds for a few snapshots of a small task."),
    ] = 60.0,
    memory_limit: Annotated[float, typer.Option(min=0.1, max=1e6, help="GiB for the same.")] = 4.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Never at the attack's own settings.")
    ] = False,
    as_json: Json = False,
    as_csv: Csv = False,
    submissions: MoreSubmissions = None,
) -> None:
    """Try the whole contract on a submission, in the sandbox.

    Every problem comes with its line and what to do. The exit code is 1 where one is an error.
    """
    from benchmark.cli.output import emit, output_format
    from benchmark.cli.session import open_engine
    from benchmark.conformance.suite import Conformance
    from benchmark.conformance.trials import TrialLimits

    form = output_format(as_json, as_csv)
    with open_engine(1, "cpu") as engine:
        suite = Conformance(engine, TrialLimits(time_limit, 1024 * memory_limit))
        found = suite.find(target)
        problems = suite.check(found, full=not quick)
    rows = [vars(problem) for problem in problems]
    emit(rows, form, lambda: _lines(found.candidate.where, problems))
    if any(not problem.warning for problem in problems):
        raise typer.Exit(1)


def _lines(where: str, problems: Sequence[Problem]) -> Iterator[str]:
    from benchmark.cli.text import wrapped
    from benchmark.conformance.problems import CHECKS

    for problem in problems:
        yield from wrapped(str(problem), "", "  ")
    errors = sum(not problem.warning for problem in problems)
    counts = f"{errors} errors, {len(problems) - errors} warnings in {len(CHECKS)} checks"
    yield f"{where}: {counts if problems else f'fine in all {len(CHECKS)} checks'}"
