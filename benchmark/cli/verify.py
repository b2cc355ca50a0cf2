"""`leakboard verify`: recorded cells, run again and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import (
    Device,
    Jobs,
    Json,
    MemoryLimit,
    MoreSubmissions,
    TimeLimit,
    folder,
)
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.exchange.repetition import RepeatVerdict
    from benchmark.execution.engines.local import LocalEngine

Records = Annotated[
    list[Path],
    typer.Argument(help="Record files, or folders of them.", metavar="RECORD...", parser=folder),
]


def verify(
    records: Records,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Draw so many of them by chance.")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Repeat what other code has made, too.")
    ] = False,
    jobs: Jobs = 0,
    device: Device = "auto",
    time_limit: TimeLimit = 600.0,
    memory_limit: MemoryLimit = 0.0,
    as_json: Json = False,
    submissions: MoreSubmissions = None,
) -> None:
    """Run recorded cells again and tell whether they are the same.

    A record is the same, within interval (other answers, but metrics within the record's 95 %
    intervals), or different. One that agrees is marked with date and machine, and the leaderboard
    shows that. The exit code is 1 where one does not agree or cannot be repeated. A record that
    was made by other code is not comparable; with --changed its figures are compared with those of
    today's code, and nothing is marked.
    """
    from benchmark.cli.output import emit
    from benchmark.cli.session import open_engine
    from benchmark.paths import ROOT

    paths = _paths(records, sample)
    hidden = [path for path in records if not ROOT.is_relative_to(path.resolve())]
    with open_engine(jobs, device, *hidden) as engine:
        verdicts = _repeat(engine, paths, time_limit, memory_limit, changed)
    rows = [vars(verdict) for verdict in verdicts]
    emit(rows, "json" if as_json else "text", lambda: _lines(verdicts))
    if not all(verdict.agrees for verdict in verdicts):
        raise typer.Exit(1)


def _paths(given: Sequence[Path], sample: int | None) -> list[Path]:
    from random import SystemRandom

    from benchmark.results.store import record_files

    found: list[Path] = []
    for path in given:
        if not path.exists():
            raise UserError(f"There is no record {path}; name a file or a folder of records.")
        found += record_files(path) if path.is_dir() else [path]
    if not found:
        raise UserError(f"There is no record below {given[0]}; run `leakboard run` first.")
    drawn = SystemRandom().sample(found, sample) if sample and sample < len(found) else found
    return sorted(set(drawn))


def _repeat(
    engine: LocalEngine,
    paths: Sequence[Path],
    time_limit: float,
    memory_limit: float,
    changed: bool,
) -> list[RepeatVerdict]:
    """Run again what can be repeated, compare it, and mark what agrees."""
    import sys
    from tempfile import TemporaryDirectory

    from benchmark.cli.session import execute, find_catalogs
    from benchmark.exchange import repetition as repeat
    from benchmark.files import read_model
    from benchmark.results.schema import Record

    catalogs = find_catalogs(engine)
    verdicts: dict[Path, RepeatVerdict] = {}
    wanted: list[repeat.Repetition] = []
    with TemporaryDirectory(prefix="leakboard-") as out:
        for number, path in enumerate(paths):
            try:
                folder = Path(out) / str(number)
                wanted.append(repeat.repetition(path, catalogs, folder, changed))
            except repeat.NotComparable as reason:
                verdicts[path] = repeat.RepeatVerdict(path, "not comparable", [str(reason)])
        execute(engine, [each.cell for each in wanted], time_limit, memory_limit, out=sys.stderr)
        for each in wanted:
            again = read_model(each.cell.path, Record)
            verdicts[each.path] = repeat.compare_records(each, again)
            if not changed:
                repeat.mark_record(verdicts[each.path], again)
    return [verdicts[path] for path in paths]


def _lines(verdicts: Sequence[RepeatVerdict]) -> Iterator[str]:
    from benchmark.cli.text import wrapped

    for verdict in verdicts:
        yield f"{verdict.word}: {verdict.path}"
        for difference in verdict.differences:
            yield from wrapped(difference, "  ", "    ")
