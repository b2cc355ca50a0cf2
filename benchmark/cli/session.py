"""One command with a person waiting: workers, what is broken, progress, and what failed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import psutil

from benchmark.cli import listing, text
from benchmark.cli.display import RunDisplay, count, duration
from benchmark.cli.live import LiveSite
from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.devices import choose
from benchmark.execution.engines.local import LocalEngine
from benchmark.ownership import remove_parts
from benchmark.paths import cache_directory
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import Broken, Kind
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell
from benchmark.runs.utility_plan import Trial
from benchmark.runs.utility_run import UtilityRun

NOT_CONTAINED = (
    "Only the audit hook is at hand here: foreign code is not contained, so run what you trust; "
    "`leakboard doctor` says what is missing."
)


def open_engine(jobs: int, device: str, *hidden: Path) -> LocalEngine:
    """Workers on the devices that were asked for, which may not read the hidden folders."""
    devices, threads = choose(device, jobs)
    return LocalEngine(devices, threads, hidden)


def find_catalogs(engine: LocalEngine) -> tuple[Catalog, Catalog]:
    """Attacks and defenses, described by a worker."""
    return listing.submissions("attack", engine), listing.submissions("defense", engine)


def find_catalog(kind: Kind) -> Catalog:
    """One kind of submissions, with an engine of its own that starts only when asked something."""
    with open_engine(1, "cpu") as engine:
        return listing.submissions(kind, engine)


def name_broken(broken: Iterable[Broken]) -> int:
    """Name what was left out as broken on standard error; returns how many."""
    listed = list(broken)
    for item in listed:
        words = f"broken {item.kind} {item.where}: {item.reason}"
        print(text.printable(words), file=sys.stderr)
    return len(listed)


def need_folder(results: Path) -> None:
    """Refuse a folder of records that is not there."""
    if not results.is_dir():
        raise UserError(f"There is no folder {results}; run `leakboard run --results {results}`.")


def execute(
    engine: LocalEngine,
    cells: Sequence[Cell | Trial],
    time_limit: float,
    memory_limit_gb: float,
    live: LiveSite | None = None,
    out: TextIO | None = None,
) -> int:
    """Run what is not cached; returns how many failed, having said so."""
    if not cells and live is None:
        return 0
    print(plan_line(cells, engine), file=out or sys.stdout)
    if sandbox.sandbox_kind() == sandbox.AUDIT_HOOK:
        print(NOT_CONTAINED, file=sys.stderr)
    for folder in (cache_directory(), *engine.hidden):
        remove_parts(folder)
    limit = memory_limit_gb * 1024 or most_memory_mb() / len(engine.devices)
    attacked = [cell for cell in cells if isinstance(cell, Cell) and not cell.cached]
    trained = [cell for cell in cells if isinstance(cell, Trial) and not cell.cached]
    with live or nullcontext(), RunDisplay([*attacked, *trained], live, out) as display:
        engine.progress = display.advanced
        run = Run(engine, display, time_limit, limit, engine.devices[0])
        done = [record.status for record in run.run(attacked)]
        done += [r.status for r in UtilityRun(engine, display, time_limit, limit).run(trained)]
    failed = sum(status not in ("ok", "unsupported") for status in done)
    if failed:
        print(f"{failed} of {len(done)} cells failed; their records tell why.", file=sys.stderr)
    return failed


def plan_line(cells: Sequence[Cell | Trial], engine: LocalEngine) -> str:
    """What a run is about to do, in one line."""
    to_run = [cell for cell in cells if not cell.cached]
    expected = sum(cell.expected_seconds for cell in to_run) / len(engine.devices)
    cached = f"{len(cells) - len(to_run)} cached, {len(to_run)} to run"
    when = f", expected time {duration(expected)}" if to_run else ""
    return f"{count(len(cells), 'cell')}: {cached}{when}"


def most_memory_mb() -> float:
    """What all cells together may take."""
    return float(psutil.virtual_memory().available) * 0.85 / 2**20
