"""`leakboard snapshots`: build, list or verify the fixed gradient snapshots."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

import typer

from benchmark.cli.options import Csv, Device, Globs, Jobs, Json, Seed, Submissions

app = typer.Typer(help="Build, list or verify the fixed gradient snapshots.")
Suite = Annotated[str, typer.Option(help="Suite that the tasks are of.")]


@app.command("build")
def build_snapshots(
    suite: Suite = "mini",
    task: Globs = None,
    defense: Submissions = "none",
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Build existing ones again.")] = False,
) -> None:
    """Build the snapshots that are not there yet."""
    from benchmark.cli.session import find_catalogs, open_engine
    from benchmark.snapshots import verify

    with open_engine(jobs, device) as engine:
        sets = verify.select(suite, task, defense or "none", seed, find_catalogs(engine)[1])
        made = verify.build(engine, sets, force, engine.memory_mb())
    print(f"{made} snapshots built, {sum(len(s.indices) for s in sets) - made} were there")


@app.command("list")
def list_snapshots(as_json: Json = False, as_csv: Csv = False) -> None:
    """List the stored snapshots, one line for each task, defense and seed."""
    from benchmark.cli import text
    from benchmark.cli.output import emit, output_format
    from benchmark.snapshots import verify

    form = output_format(as_json, as_csv)
    rows = verify.stored()
    head = ("task", "defense", "seed", "snapshots", "MB")
    cells = [tuple(str(value) for value in row.values()) for row in rows]
    emit(rows, form, lambda: text.aligned([head, *cells], {2, 3}))


@app.command("verify")
def verify_snapshots(
    suite: Suite = "mini",
    task: Globs = None,
    defense: Submissions = "none",
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = "auto",
) -> None:
    """Rebuild stored snapshots and compare: identical, same within rounding, or different."""
    from benchmark.cli.session import find_catalogs, open_engine
    from benchmark.snapshots import verify

    with open_engine(jobs, device) as engine:
        sets = verify.select(suite, task, defense or "none", seed, find_catalogs(engine)[1])
        verdicts = verify.verify(engine, sets, engine.memory_mb())
    for verdict in verdicts:
        if not verdict.fine:
            print(f"{verdict.word}: {verdict.sentence}", file=sys.stderr)
    counts = sorted(Counter(verdict.word for verdict in verdicts).items())
    print(", ".join(f"{count} {word}" for word, count in counts) or "none stored")
    if any(not verdict.fine for verdict in verdicts):
        raise typer.Exit(2)


@app.command("publish", hidden=True)
def publish_snapshots(suite: Suite = "mini", task: Globs = None) -> None:
    """For maintainers: make the stored sketches the reference that other machines compare with."""
    from benchmark.cli.session import find_catalogs, open_engine
    from benchmark.snapshots import verify

    with open_engine(1, "cpu") as engine:
        sets = verify.select(suite, task, "none", 0, find_catalogs(engine)[1])
        print(verify.publish(sets, suite))
