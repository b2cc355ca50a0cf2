"""Which trainings `leakboard run --utility` makes: one trial for each task, defense and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import get_suite, load_task, trained_as
from benchmark.plugins.selection import (
    ConfiguredSubmission,
    choose,
    choose_tasks,
    is_broken,
    without_broken,
)
from benchmark.results.index import RecordIndex
from benchmark.results.schema import SCHEMA_VERSION, UtilityRecord
from benchmark.results.store import utility_path
from benchmark.runs.plan import PlannedRun, Selection, is_current
from benchmark.snapshots.checked_salt import checked_salt_digest
from benchmark.snapshots.dependencies import training_digest
from benchmark.suites import LoadedTask, Pairing, Suite, Task

SEEDS = 3
"""Trainings of each task with each defense."""
GUESSED_SECONDS = 10.0


@dataclass(frozen=True)
class Trial(PlannedRun):
    """One training of one task's model with one defense and one seed."""

    @property
    def label(self) -> str:
        """Label shown in progress output."""
        return f"{self.task.name} · utility · {self.defense.name} · seed {self.seed}"


def plan_utility(selection: Selection, defenses: Catalog, results: Path) -> list[Trial]:
    """All trials of a selection, in the suite's order, each once."""
    trials: dict[Path, Trial] = {}
    records = RecordIndex(results)
    for task, defense in utility_pairs(selection, defenses):
        for seed in range(selection.seed, selection.seed + selection.trainings):
            trial = make_trial(selection, load_task(task), defense, seed, results, records)
            trials.setdefault(trial.path, trial)
    return list(trials.values())


def utility_pairs(
    selection: Selection, defenses: Catalog
) -> list[tuple[Task, ConfiguredSubmission]]:
    """Which model is trained with which defense; every name is right before any is loaded."""
    suite = get_suite(selection.suite)
    return [
        (task, defense)
        for line in _pairings(suite, selection, defenses)
        for task in dict.fromkeys(trained_as(t) for t in _trained(suite, line.task, selection.task))
        for defense in choose(defenses, "defense", line.defense)
    ]


def _pairings(suite: Suite, selection: Selection, defenses: Catalog) -> Sequence[Pairing]:
    """What was asked for, else the suite's own plan; both without what is broken."""
    if selection.defense:
        usable = without_broken(defenses, selection.defense)
        return [Pairing(selection.task or "*", defense=usable)]
    plan = suite.utility
    if selection.task:
        wanted = {t.name for t in choose_tasks(suite, selection.task)}
        lines = [p for p in plan if wanted & {t.name for t in choose_tasks(suite, p.task)}]
        plan = tuple(lines) or (Pairing(selection.task),)
    return [line for line in plan if not is_broken(defenses, line.defense)]


def _trained(suite: Suite, line: str, asked: str | None) -> list[Task]:
    """Tasks of a line that were asked for and declare how they train."""
    wanted = {task.name for task in choose_tasks(suite, asked or "*")}
    found = [task for task in choose_tasks(suite, line) if task.name in wanted]
    trained = [task for task in found if task.training or task.federation]
    if found and not trained:
        raise UserError(
            f"{found[0].name} does not declare how it trains, so a defense has no utility."
        )
    return trained


def make_trial(
    selection: Selection,
    side: LoadedTask,
    defense: ConfiguredSubmission,
    seed: int,
    results: Path,
    records: RecordIndex | None = None,
) -> Trial:
    """One training of a task's model; the selection's names are not looked at."""
    path = utility_path(results, side.task.name, defense.name, seed)
    fingerprint = training_fingerprint(side, defense, seed)
    old = (records or RecordIndex(results)).look_up(path, UtilityRecord, _seconds_of)
    return Trial(
        suite=selection.suite,
        task=side.task,
        defense=defense,
        seed=seed,
        path=path,
        fingerprint=fingerprint,
        cached=is_current(old, fingerprint) and not selection.force,
        expected_seconds=GUESSED_SECONDS if old is None else old.seconds,
    )


def training_fingerprint(side: LoadedTask, defense: ConfiguredSubmission, seed: int) -> str:
    """Over everything that a training depends on."""
    code = training_digest(side.task.federation is not None)
    parts = [SCHEMA_VERSION, code, side.training_digest, checked_salt_digest(side), seed]
    parts += [defense.entry.name, defense.entry.digest, sorted(defense.parameters.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _seconds_of(record: UtilityRecord) -> float:
    if record.step_seconds is None or record.rounds is None:
        return GUESSED_SECONDS
    return record.step_seconds * record.rounds
