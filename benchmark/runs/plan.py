"""Which cells will run, which are there already, and how long they may take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TypedDict

from benchmark.paths import ROOT
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import find_suites, get_suite, load_task
from benchmark.plugins.selection import (
    ConfiguredSubmission,
    choose,
    choose_tasks,
    is_broken,
    without_broken,
)
from benchmark.results.index import RecordIndex, Summary
from benchmark.results.schema import SCHEMA_VERSION, Record, Status
from benchmark.results.store import cell_path
from benchmark.runs.forecast import (
    CORES,
    cell_seconds,
    is_downloaded,
    measured_rates,
    usual_steps,
)
from benchmark.snapshots.checked_salt import checked_salt_digest
from benchmark.snapshots.dependencies import attacks_digest
from benchmark.spec import Knowledge, Scalar
from benchmark.suites import NO_DEFENSE, LoadedTask, Pairing, Suite, Task

GUESSED_SECONDS = 2.0
"""Expected time of a cell that never ran, where no published record tells more."""
PUBLISHED = ROOT / "leaderboard" / "results"


class Names(TypedDict):
    """What every record says of the measurement behind it."""

    suite: str
    task: str
    task_version: int
    defense: str
    defense_parameters: dict[str, Scalar]
    defense_variant: str
    seed: int


@dataclass(frozen=True)
class PlannedRun:
    """A measurement to be made: of a task under a defense, with a seed, into a file."""

    suite: str
    task: Task
    defense: ConfiguredSubmission
    seed: int
    path: Path
    fingerprint: str
    cached: bool
    expected_seconds: float

    def names(self) -> Names:
        """What its record says of it."""
        return {
            "suite": self.suite,
            "task": self.task.name,
            "task_version": self.task.version,
            "defense": self.defense.entry.name,
            "defense_parameters": dict(self.defense.parameters),
            "defense_variant": self.defense.variant,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Cell(PlannedRun):
    """One task under one defense, attacked by one attack, with one seed."""

    attack: ConfiguredSubmission

    @property
    def told(self) -> frozenset[Knowledge]:
        """Knowledge that the attack is handed."""
        return handed_over(self.attack, self.task)

    @property
    def label(self) -> str:
        """Label shown in progress output."""
        return f"{self.task.name} · {self.attack.name} · {self.defense.name}"


@dataclass(frozen=True)
class Selection:
    """What the user asked for; None means what the suite's own plan says."""

    suite: str
    task: str | None = None
    attack: str | None = None
    defense: str | None = None
    seed: int = 0
    force: bool = False
    trainings: int = 3
    """Seeds, from the given one on, that a utility is trained with."""


def plan_cells(
    selection: Selection, attacks: Catalog, defenses: Catalog, results: Path
) -> list[Cell]:
    """All cells of a selection, in the suite's order, each once."""
    cells: dict[Path, Cell] = {}
    known = Known(results, attacks)
    for task, attack, defense in plan_pairs(selection, attacks, defenses):
        cell = make_cell(selection, load_task(task), attack, defense, results, known)
        cells.setdefault(cell.path, cell)
    known.records.save()
    return list(cells.values())


def plan_pairs(
    selection: Selection, attacks: Catalog, defenses: Catalog
) -> list[tuple[Task, ConfiguredSubmission, ConfiguredSubmission]]:
    """Task, attack and defense of each line; every name is right before anything is loaded."""
    suite = get_suite(selection.suite)
    wanted = {task.name for task in choose_tasks(suite, selection.task or "*")}
    return [
        (task, attack, defense)
        for pairing in _pairings(suite, selection, attacks, defenses)
        for task in choose_tasks(suite, pairing.task)
        if task.name in wanted
        for defense in choose(defenses, "defense", pairing.defense)
        for attack in choose(attacks, "attack", pairing.attack)
    ]


class Known:
    """What the cells of one plan have in common, looked up once."""

    def __init__(self, results: Path, attacks: Catalog | None = None) -> None:
        self.records = RecordIndex(results)
        self._attacks = attacks or Catalog()
        self._tasks: dict[Task, list[object]] = {}

    def seconds(self, suite: Suite | None, task: Task, attack: ConfiguredSubmission) -> float:
        """Expected time of a cell that never ran: as long as published ones of its attack.

        `suite` is None where it is made for the occasion, as of an audit.
        """
        if suite is None or not suite.footprints:
            return GUESSED_SECONDS
        known = cell_seconds(task, attack, suite.footprints, self._rates)
        return max(GUESSED_SECONDS, known / (CORES if is_downloaded(suite) else 1))

    @cached_property
    def _rates(self) -> Mapping[str, float]:
        usual = {name: usual_steps(entry) for name, entry in self._attacks.entries.items()}
        return measured_rates(PUBLISHED, usual, of=median)

    def fingerprint(self, side: LoadedTask) -> list[object]:
        """What the fingerprints of all cells of a task begin with."""
        if side.task not in self._tasks:
            parts = [SCHEMA_VERSION, attacks_digest(), side.digest, checked_salt_digest(side)]
            self._tasks[side.task] = parts
        return self._tasks[side.task]


def _pairings(
    suite: Suite, selection: Selection, attacks: Catalog, defenses: Catalog
) -> list[Pairing]:
    """What was asked for, else the suite's own plan; both without what is broken."""
    defense = without_broken(defenses, selection.defense or NO_DEFENSE)
    if selection.attack:
        return [Pairing("*", without_broken(attacks, selection.attack), defense)]
    usable = [
        line
        for line in suite.plan
        if not is_broken(attacks, line.attack) and not is_broken(defenses, line.defense)
    ]
    if selection.defense:
        return [Pairing(line.task, line.attack, defense) for line in usable]
    return usable


def make_cell(
    selection: Selection,
    side: LoadedTask,
    attack: ConfiguredSubmission,
    defense: ConfiguredSubmission,
    results: Path,
    known: Known | None = None,
) -> Cell:
    """The cell of one pairing; the selection's names are not looked at."""
    known = known or Known(results)
    path = cell_path(results, side.task.name, defense.name, attack.name, selection.seed)
    fingerprint = _fingerprint(known.fingerprint(side), side.task, attack, defense, selection.seed)
    old = known.records.look_up(path, Record, _seconds_of)
    return Cell(
        suite=selection.suite,
        task=side.task,
        attack=attack,
        defense=defense,
        seed=selection.seed,
        path=path,
        fingerprint=fingerprint,
        cached=is_current(old, fingerprint) and not selection.force,
        expected_seconds=known.seconds(find_suites()[0].get(selection.suite), side.task, attack)
        if old is None
        else old.seconds,
    )


def handed_over(attack: ConfiguredSubmission, task: Task) -> frozenset[Knowledge]:
    """Of the knowledge that an attack declares at its settings, what a task grants."""
    declared = attack.entry.told(attack.parameters)
    return frozenset(fact for fact in task.grants if fact in declared)


def _fingerprint(
    common: Sequence[object],
    task: Task,
    attack: ConfiguredSubmission,
    defense: ConfiguredSubmission,
    seed: int,
) -> str:
    parts: list[object] = [*common, seed]
    for selected, digest in ((attack, attack.entry.digest), (defense, defense.digest(task))):
        parts += [selected.entry.name, digest, sorted(selected.parameters.items())]
    parts += sorted(handed_over(attack, task))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_current(record: Summary | None, fingerprint: str) -> bool:
    """Failed ones run again; the others are done while nothing they depend on has changed."""
    done = (Status.OK, Status.UNSUPPORTED)
    return record is not None and record.status in done and record.fingerprint == fingerprint


def _seconds_of(record: Record) -> float:
    return (record.prepare_seconds or 0.0) + sum(s.seconds or 0.0 for s in record.snapshots)


def groups(cells: Sequence[Cell]) -> dict[tuple[str, str, int], list[Cell]]:
    """Cells that attack the same snapshots, by task, defense and seed."""
    found: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.task.name, cell.defense.name, cell.seed), []).append(cell)
    return found
