"""`leakboard publish`: results for the repository, without private or recovered text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli.options import RESULTS, Results, folder
from benchmark.errors import UserError

Into = Annotated[
    Path, typer.Option(help="Folder to publish them in.", parser=folder, metavar="PATH")
]


def publish(
    results: Results,
    out: Into = RESULTS,
    suite: Annotated[str, typer.Option(help="Suite whose results are published.")] = "open",
) -> None:
    """Write results without private or recovered text.

    Figures of every snapshot, digests and provenance are published; sentences, token ids and what
    an attack said are not. Only what is scored and has a seed from 100 on is published.
    """
    from benchmark.cli.display import count
    from benchmark.cli.session import need_folder
    from benchmark.exchange.official import FIRST_PUBLISHED_SEED
    from benchmark.exchange.publishing import publish as write

    need_folder(results)
    if out.resolve() == results.resolve():
        raise UserError(f"{out} would lose its texts; publish to another folder with --out.")
    done = list(write(results, out, lambda r: r.suite == suite and r.seed >= FIRST_PUBLISHED_SEED))
    left_out = [item for item in done if item.reason]
    print(f"{count(len(done) - len(left_out), 'record')} of {suite} in {out}, without texts")
    for item in left_out:
        print(f"left out {item.path}: {item.reason}", file=sys.stderr)
    if left_out or not done:
        raise typer.Exit(1)
