"""The `leakboard` command. Heavy imports happen inside commands, so that help answers at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.errors import UserError, unknown_name

if TYPE_CHECKING:
    from benchmark.engines.local import LocalEngine
    from benchmark.planning import Cell
    from benchmark.registry import Catalogue
    from benchmark.utility import Trial

app = typer.Typer(
    help="Measure how much private text shared gradients leak, and what each defense changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
snapshots_app = typer.Typer(help="Build, list or verify the fixed gradient snapshots.")
app.add_typer(snapshots_app, name="snapshots", no_args_is_help=True)

Results = Annotated[Path, typer.Option(help="Folder of records.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, or one device such as cuda:1.")]
Jobs = Annotated[int, typer.Option(min=0, help="Cells at once; 0: one a core or one a GPU.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Seed of batches, defenses and attacks.")
]
Globs = Annotated[str | None, typer.Option(help="Names or globs, by commas.")]
Submissions = Annotated[
    str | None, typer.Option(help="Names or globs, by commas, each with [key=value,...].")
]
RESULTS = Path("leaderboard/results")


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="tasks, attacks, defenses, suites, metrics, models")],
    as_json: Json = False,
) -> None:
    """List what there is to run."""
    from benchmark import listing
    from benchmark.display import count, table

    if what not in listing.KINDS:
        raise unknown_name("list", what, listing.KINDS)
    rows, columns, broken = listing.collect(what, _catalogue)
    if as_json:
        extra = [vars(item) for item in broken]
        print(json.dumps({what: rows, "broken": extra} if broken else {what: rows}, indent=1))
        return
    table(count(len(rows), what.removesuffix("s")), rows, columns)
    for item in broken:
        print(f"broken {item.kind} {item.where}: {item.reason}", file=sys.stderr)


@app.command()
def run(
    suite: Annotated[str, typer.Option(help="Suite to run.")] = "mini",
    task: Globs = None,
    attack: Submissions = None,
    defense: Submissions = None,
    results: Results = RESULTS,
    jobs: Jobs = 0,
    device: Device = "auto",
    seed: Seed = 0,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a cell may take.")] = 600.0,
    memory_limit: Annotated[float, typer.Option(min=0, help="GiB a cell may take; 0: most.")] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Run cells that are there, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    utility: Annotated[
        bool, typer.Option("--utility", help="Train with each defense instead of attacking it.")
    ] = False,
) -> None:
    """Run the cells that are not there yet; every cell becomes a record."""
    from benchmark import planning
    from benchmark import utility as pricing
    from benchmark.session import plan_line, work_off

    if utility and attack:
        raise UserError("--utility trains without an attack; leave --attack out.")
    choice = planning.Selection(suite, task, attack, defense, seed, force)
    with _engine(jobs, device) as engine:
        attacks, defenses = _catalogues(engine)
        cells: Sequence[Cell | Trial] = (
            pricing.plan(choice, defenses, results)
            if utility
            else planning.plan(choice, attacks, defenses, results)
        )
        if dry_run:
            print(plan_line(cells, engine))
            for cell in cells:
                print(f"{'cached' if cell.cached else 'to run'}  {cell.label}")
            return
        failed = work_off(engine, cells, time_limit, memory_limit)
    if failed:
        raise typer.Exit(1)


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="One of the papers' tables; none: list them.")] = "",
    suite: Annotated[str, typer.Option(help="Suite that gives our rows.")] = "mini",
    results: Results = RESULTS,
    jobs: Jobs = 0,
    device: Device = "auto",
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a cell may take.")] = 600.0,
    out: Annotated[Path | None, typer.Option(help="Also write the rows as CSV here.")] = None,
) -> None:
    """Run what is missing of one of the papers' tables, and show our rows beside theirs."""
    from benchmark import reported, scores
    from benchmark.display import count, show_comparison
    from benchmark.display import table as show_table
    from benchmark.session import work_off

    if not name:
        rows = [{"name": n} | dict(reported.load(n)) for n in reported.names()]
        show_table(count(len(rows), "table"), rows, ["name", "table", "title", "paper"])
        return
    wanted = reported.load(name)
    with _engine(jobs, device) as engine:
        works = reported.plan(wanted, suite, *_catalogues(engine), results)
        cells = {work.cell.path: work.cell for work in works if work.cell is not None}
        trials = {trial.path: trial for work in works for trial in work.trials}
        failed = work_off(engine, list(cells.values()), time_limit, 0.0)
        failed += work_off(engine, list(trials.values()), time_limit, 0.0)
    for _ in scores.score_all(results):
        pass
    lines = reported.compare(wanted, works, results)
    show_comparison(wanted, lines)
    if out is not None:
        reported.write_csv(out, wanted, lines)
    if failed:
        raise typer.Exit(1)


@app.command()
def score(
    results: Results = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Score everything again.")] = False,
) -> None:
    """Compute metrics from the records."""
    from benchmark import leaks, scores

    _need_folder(results)
    counts: dict[str, int] = {}
    for item in scores.score_all(results, force):
        known = item.outcome in ("scored", "unchanged")
        counts[item.outcome if known else "left out"] = (
            counts.get(item.outcome if known else "left out", 0) + 1
        )
        if not known:
            print(f"left out {item.path}: {item.outcome}", file=sys.stderr)
    leaks.write_leaks(results)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "no records")


@app.command()
def site(
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("leaderboard/site"),
) -> None:
    """Render the leaderboard as static pages."""
    from benchmark import listing, registry

    _need_folder(results)
    page = registry.render_site(results, out, **listing.everything(_catalogue))
    print(f"The leaderboard is at {page.resolve().as_uri()}")


@app.command()
def show(
    results: Results = RESULTS,
    as_json: Json = False,
    utility: Annotated[bool, typer.Option("--utility", help="What each defense costs.")] = False,
) -> None:
    """Show the results as rows."""
    from benchmark import scores
    from benchmark.display import count, show_prices, table

    _need_folder(results)
    if utility:
        show_prices(results, as_json)
        return
    rows = scores.rows(results)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    flat = []
    for row in rows:
        metrics: Any = row["metrics"]
        flat.append(row | {name: f"{value['mean']:.3f}" for name, value in metrics.items()})
    columns = ["task", "attack", "defense", "status", "rougeL", "type_f1", "seconds", "reason"]
    table(count(len(rows), "cell"), flat, columns)


@app.command()
def doctor() -> None:
    """Say what this machine offers and what is missing."""
    from benchmark.doctor import examine

    for finding in examine():
        print(f"{'ok ' if finding.fine else 'LOOK'} {finding.topic}: {finding.sentence}")


@snapshots_app.command("build")
def build_snapshots(
    suite: Annotated[str, typer.Option(help="Suite to build for.")] = "mini",
    task: Globs = None,
    defense: Submissions = "none",
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Build existing ones again.")] = False,
) -> None:
    """Build the snapshots that are not there yet."""
    from benchmark import upkeep
    from benchmark.session import most_memory_mb

    with _engine(jobs, device) as engine:
        sets = upkeep.select(suite, task, defense or "none", seed, _catalogues(engine)[1])
        made = upkeep.build(engine, sets, force, most_memory_mb() / len(engine.devices))
    print(f"{made} snapshots built, {sum(len(s.indices) for s in sets) - made} were there")


@snapshots_app.command("list")
def list_snapshots(as_json: Json = False) -> None:
    """List the stored snapshots."""
    from benchmark import upkeep
    from benchmark.display import count, table

    rows = upkeep.stored()
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table(count(len(rows), "snapshot set"), rows, ["task", "defense", "seed", "snapshots", "mb"])


@snapshots_app.command("verify")
def verify_snapshots(
    suite: Annotated[str, typer.Option(help="Suite to verify.")] = "mini",
    task: Globs = None,
    defense: Submissions = "none",
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = "auto",
) -> None:
    """Rebuild stored snapshots and compare: identical, same within rounding, or different."""
    from benchmark import upkeep
    from benchmark.session import most_memory_mb

    with _engine(jobs, device) as engine:
        sets = upkeep.select(suite, task, defense or "none", seed, _catalogues(engine)[1])
        verdicts = upkeep.verify(engine, sets, most_memory_mb() / len(engine.devices))
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
        if not verdict.fine:
            print(f"{verdict.word}: {verdict.sentence}", file=sys.stderr)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "none stored")
    if any(not verdict.fine for verdict in verdicts):
        raise typer.Exit(2)


@snapshots_app.command("publish", hidden=True)
def publish_snapshots(
    suite: Annotated[str, typer.Option(help="Suite to publish.")] = "mini",
) -> None:
    """For maintainers: make the stored sketches the reference that other machines compare with."""
    from benchmark import upkeep

    with _engine(1, "cpu") as engine:
        sets = upkeep.select(suite, None, "none", 0, _catalogues(engine)[1])
        print(upkeep.publish(sets, suite))


# ------------------------------------------------------------------------------------- machinery


def _engine(jobs: int, device: str) -> LocalEngine:
    from benchmark.devices import choose
    from benchmark.engines.local import LocalEngine

    devices, threads = choose(device, jobs)
    return LocalEngine(devices, threads)


def _catalogues(engine: LocalEngine) -> tuple[Catalogue, Catalogue]:
    """Attacks and defenses, described by a worker; broken ones are named on the way."""
    from benchmark import listing

    found = listing.submissions("attack", engine), listing.submissions("defense", engine)
    for catalogue in found:
        for item in catalogue.broken:
            print(f"broken {item.kind} {item.where}: {item.reason}", file=sys.stderr)
    return found


def _catalogue(kind: Any) -> Catalogue:
    """One kind of submissions, with an engine of its own that starts only when asked something."""
    from benchmark import listing

    with _engine(1, "cpu") as engine:
        return listing.submissions(kind, engine)


def _need_folder(results: Path) -> None:
    if not results.is_dir():
        raise UserError(f"There is no folder {results}; run `leakboard run --results {results}`.")


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UserError as error:
        _complain(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}; check the path and its permissions.")
    except (KeyboardInterrupt, typer.Abort):
        print("Interrupted; the same command goes on from here.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message())
            sys.exit(0)
        _complain(f"{message().rstrip('.')}; see `leakboard --help`.")


def _complain(sentence: str) -> None:
    print(f"leakboard: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
