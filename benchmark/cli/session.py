"""One command with a person waiting: workers, what is broken, progress, and what failed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from benchmark.cli import listing, text
from benchmark.cli.display import RunDisplay, count, duration
from benchmark.cli.live import LiveSite
from benchmark.errors import UserError, unknown_name
from benchmark.execution import sandbox
from benchmark.execution.devices import choose
from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.local import LocalEngine
from benchmark.ownership import remove_parts, require_writable
from benchmark.paths import cache_directory
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import Broken, Kind
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell
from benchmark.runs.utility_plan import Trial
from benchmark.runs.utility_run import UtilityRun

ENGINES = ("local", "ray")
NOT_CONTAINED = (
    "Only the audit hook is at hand here: foreign code is not contained, so run what you trust; "
    "`leakboard doctor` says what is missing."
)


def open_engine(jobs: int, device: str, *hidden: Path) -> LocalEngine:
    """Workers on the devices that were asked for, which may not read the hidden folders."""
    devices, threads = choose(device, jobs)
    return LocalEngine(devices, threads, hidden)


@dataclass(frozen=True)
class ClusterOptions:
    """What `leakboard run` was told of the cluster to use; None where it was not told."""

    engine: str
    address: str | None
    cpus: int | None
    weakest_sandbox: str | None

    def open(self, jobs: int, device: str, memory_limit_gb: float, hidden: Path) -> Engine:
        """Workers on this machine, or on the nodes of a Ray cluster."""
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        if self.engine == "ray":
            return self._open_ray(jobs, device, memory_limit_gb, hidden)
        named = {"--address": self.address, "--cpus": self.cpus, "--sandbox": self.weakest_sandbox}
        for option in (name for name, value in named.items() if value is not None):
            raise UserError(f"{option} goes with --engine ray; leave it out, or add that.")
        return open_engine(jobs, device, hidden)

    def _open_ray(self, jobs: int, device: str, memory_limit_gb: float, hidden: Path) -> Engine:
        from benchmark.execution.engines.nodes import Request
        from benchmark.execution.engines.ray import RayEngine

        weakest = self.weakest_sandbox or sandbox.sandbox_kind()
        if weakest not in sandbox.SANDBOXES:
            raise unknown_name("sandbox", weakest, sandbox.SANDBOXES)
        request = Request(device, self.cpus or 1, memory_limit_gb * 1024, weakest)
        return RayEngine(self.address, request, [hidden], jobs, notice=_notice)


def _notice(sentence: str) -> None:
    print(text.printable(sentence), file=sys.stderr)


def find_catalogs(engine: Engine) -> tuple[Catalog, Catalog]:
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
    engine: Engine,
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
        if not folder.is_file():  # `verify` hides single records, and writes elsewhere
            require_writable(folder)
            remove_parts(folder)
    limit = memory_limit_gb * 1024 or engine.memory_mb()
    missing = [cell for cell in cells if not cell.cached]
    if engine.longest_first:
        missing.sort(key=lambda cell: -cell.expected_seconds)
    attacked = [cell for cell in missing if isinstance(cell, Cell)]
    trained = [cell for cell in missing if isinstance(cell, Trial)]
    with live or nullcontext(), RunDisplay([*attacked, *trained], live, out) as display:
        engine.progress = display.advanced
        run = Run(engine, display, time_limit, limit, engine.devices[0])
        done = [record.status for record in run.run(attacked)]
        # Its file is part of what trainings depend on, so its signature stays as it was.
        training = UtilityRun(cast(LocalEngine, engine), display, time_limit, limit)
        done += [record.status for record in training.run(trained)]
    failed = sum(status not in ("ok", "unsupported") for status in done)
    if failed:
        print(f"{failed} of {len(done)} cells failed; their records tell why.", file=sys.stderr)
    return failed


def plan_line(cells: Sequence[Cell | Trial], engine: Engine) -> str:
    """What a run is about to do, in one line."""
    to_run = [cell for cell in cells if not cell.cached]
    expected = sum(cell.expected_seconds for cell in to_run) / len(engine.devices)
    cached = f"{len(cells) - len(to_run)} cached, {len(to_run)} to run"
    when = f", expected time {duration(expected)}" if to_run else ""
    return f"{count(len(cells), 'cell')}: {cached}{when}"
