"""One run with a person waiting: what is to do, progress, and whether anything failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import psutil

from benchmark.display import RunDisplay, count, duration
from benchmark.engines.local import LocalEngine
from benchmark.planning import Cell
from benchmark.runner import Run
from benchmark.utility import Trial, UtilityRun


def work_off(
    engine: LocalEngine, cells: Sequence[Cell | Trial], time_limit: float, memory_limit_gb: float
) -> int:
    """Run what is not cached; returns how many failed, having said so."""
    if not cells:
        return 0
    print(plan_line(cells, engine))
    limit = memory_limit_gb * 1024 or most_memory_mb() / len(engine.devices)
    attacked = [cell for cell in cells if isinstance(cell, Cell) and not cell.cached]
    trained = [cell for cell in cells if isinstance(cell, Trial) and not cell.cached]
    with RunDisplay([*attacked, *trained]) as display:
        engine.progress = display.advanced
        run = Run(engine, display, time_limit, limit, engine.devices[0])
        done = [record.status for record in run.run(attacked)]
        done += [r.status for r in UtilityRun(engine, display, time_limit, limit).run(trained)]
    failed = sum(status not in ("ok", "unsupported") for status in done)
    if failed:
        print(f"{failed} of {len(done)} cells failed; their records say why.", file=sys.stderr)
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
