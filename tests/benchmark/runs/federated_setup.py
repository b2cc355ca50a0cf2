"""A federation small enough for tests: six clients, three a round, two rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import choose
from benchmark.results.schema import UtilityRecord
from benchmark.runs.plan import Selection
from benchmark.runs.utility_plan import Trial, make_trial
from benchmark.runs.utility_run import UtilityRun
from benchmark.suites import Federation, Task

SMALL = Federation(
    clients=6, sampled=3, rounds=2, batch_size=4, learning_rate=5e-3, checks=2,
    validation_rows=16, test_rows=48, max_tokens=24, local_rows=8,
)  # fmt: skip


def small_task(name: str = "mini/agnews-fl", **changes: Any) -> Task:
    task = all_tasks()[name]
    return replace(task, federation=replace(SMALL, **changes), snapshots=2, max_tokens=40)


def small_trial(task: Task, defenses: Catalog, defense: str, results: Path, seed: int = 7) -> Trial:
    chosen = choose(defenses, "defense", defense)[0]
    return make_trial(
        Selection("mini", task.name, None, defense), load_task(task), chosen, seed, results
    )


class Watching:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[UtilityRecord] = []

    def ended(self, cell: Trial, record: UtilityRecord) -> None:
        self.records.append(record)


def run_trials(
    engine: LocalEngine, trials: list[Trial], seconds: float = 60.0
) -> list[UtilityRecord]:
    return UtilityRun(engine, Watching(), seconds, 8000.0).run(trials)


def comparable(record: UtilityRecord) -> dict[str, object]:
    """What a record says, but for times, memory and the place where it was made."""
    left_out = {"provenance", "step_seconds", "peak_mb", "device_peak_mb"}
    return record.model_dump(exclude=left_out)


def engines(count: int) -> Iterator[LocalEngine]:
    with LocalEngine(["cpu"] * count, threads=1) as running:
        yield running
