"""From names and globs to cells: what will run, what is there already, how long it may take."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from benchmark import records, registry
from benchmark.combined import obstacle
from benchmark.errors import UserError, unknown_name
from benchmark.records import Measured, Record, cell_path, part_parameters, variant
from benchmark.registry import Catalogue, Entry, LoadedTask
from benchmark.spec import Scalar
from benchmark.suites import Pairing, Suite, Task

Old = TypeVar("Old", bound=Measured)

GUESSED_SECONDS = 2.0
"""Expected time of a cell that never ran."""


@dataclass(frozen=True)
class Chosen:
    """A submission with the parameters that differ from its defaults."""

    entry: Entry
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def variant(self) -> str:
        """The name that the submission gives to these very parameters, if it does."""
        named = self.entry.variants.items()
        return next(
            (name for name, s in named if self.entry.without_defaults(s) == self.parameters), ""
        )

    @property
    def name(self) -> str:
        """The variant's name, or `name[key=value,...]`."""
        return self.variant or variant(self.entry.name, self.parameters)

    def digest(self, task: Task) -> str:
        """Of the code, and of the budget that a defense which accounts for privacy depends on."""
        if task.training is None or not self.entry.overrides:
            return self.entry.digest
        budget = f"{task.training.rounds} {task.training.sampling_rate} {task.training.delta}"
        return hashlib.sha256(f"{self.entry.digest} {budget}".encode()).hexdigest()

    def parts(self) -> list[dict[str, Any]]:
        """What a worker needs to make this submission, or each part of a combination."""
        if not self.entry.parts:
            return [{"submission": self.entry.reference, "parameters": dict(self.parameters)}]
        return [
            {
                "submission": entry.reference,
                "parameters": part_parameters(entry.name, self.parameters),
            }
            for entry in self.entry.parts
        ]


@dataclass(frozen=True)
class Planned:
    """A measurement to be made: of a task under a defense, with a seed, into a file."""

    suite: str
    task: Task
    defense: Chosen
    seed: int
    path: Path
    fingerprint: str
    cached: bool
    expected_seconds: float

    def names(self) -> dict[str, Any]:
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
class Cell(Planned):
    """One task under one defense, attacked by one attack, with one seed."""

    attack: Chosen

    @property
    def label(self) -> str:
        """For people."""
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


def split_parameters(text: str) -> tuple[str, dict[str, str]]:
    """`name[key=value,...]` as name and strings; brackets without `=` belong to a glob."""
    if not text.endswith("]") or "=" not in text:
        return text, {}
    name, _, inside = text[:-1].partition("[")
    pairs = [part.partition("=") for part in inside.split(",")]
    if any(not key or not equals for key, equals, _ in pairs):
        raise UserError(f"{text!r} is not of the form name[key=value,...].")
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def choose(catalogue: Catalogue, kind: str, patterns: str) -> list[Chosen]:
    """Submissions, variants and combinations that globs name; at least one for each."""
    found = []
    for pattern in split_names(patterns, ","):
        if kind != "defense" or len(names := split_names(pattern, "+")) == 1:
            found += _choose(catalogue, kind, pattern)
        else:
            parts = product(*(_choose(catalogue, kind, name) for name in names))
            found += [combine(each) for each in parts]
    return found


def split_names(pattern: str, sign: str) -> list[str]:
    """The parts of `first[key=value]+second`; a sign inside brackets divides nothing."""
    return re.split(rf"\{sign}(?![^\[]*\])", pattern)


def combine(parts: Sequence[Chosen]) -> Chosen:
    """Several defenses as one, with the parameters of each under its name."""
    entries = tuple(part.entry for part in parts)
    name = "+".join(entry.name for entry in entries)
    if why := obstacle([(entry.name, entry.overrides) for entry in entries]):
        raise UserError(f"{name} cannot be combined: {why}.")
    digests = " ".join(entry.digest for entry in entries)
    entry = Entry(
        kind="defense",
        name=name,
        reference="",
        digest=hashlib.sha256(digests.encode()).hexdigest(),
        summary=" ".join(entry.summary for entry in entries),
        paper="; ".join(dict.fromkeys(entry.paper for entry in entries if entry.paper)),
        allow_tf32=False,
        parameters={},
        overrides=[step for entry in entries for step in entry.overrides],
        parts=entries,
    )
    given = {f"{p.entry.name}.{key}": value for p in parts for key, value in p.parameters.items()}
    return Chosen(entry, given)


def _choose(catalogue: Catalogue, kind: str, pattern: str) -> list[Chosen]:
    """Submissions and variants that a glob with optional parameters names; at least one."""
    name, given = split_parameters(pattern)
    named = catalogue.names()
    matching = sorted(n for n in named if fnmatchcase(n, name))
    if not matching:
        catalogue.get(kind, name)
    found = []
    for entry, settings in (named[n] for n in matching):
        preset = {key: str(value) for key, value in settings.items()}
        found.append(Chosen(entry, entry.check_parameters(preset | given)))
    return found


def choose_tasks(suite: Suite, patterns: str) -> list[Task]:
    """Tasks that globs name, with or without the suite's name in front; at least one for each."""
    found = set()
    for pattern in patterns.split(","):
        full = pattern if "/" in pattern else f"{suite.name}/{pattern}"
        matching = {task.name for task in suite.tasks if fnmatchcase(task.name, full)}
        if not matching:
            raise unknown_name("task", full, [task.name for task in suite.tasks])
        found |= matching
    return [task for task in suite.tasks if task.name in found]


def plan(
    selection: Selection, attacks: Catalogue, defenses: Catalogue, results: Path
) -> list[Cell]:
    """All cells of a selection, in the suite's order, each once."""
    suite = registry.suite(selection.suite)
    wanted = {task.name for task in choose_tasks(suite, selection.task or "*")}
    pairs = [
        (task, attack, defense)
        for pairing in _pairings(suite, selection, attacks, defenses)
        for task in choose_tasks(suite, pairing.task)
        if task.name in wanted
        for defense in choose(defenses, "defense", pairing.defense)
        for attack in choose(attacks, "attack", pairing.attack)
    ]  # every name is known to be right before anything is loaded
    cells: dict[Path, Cell] = {}
    for task, attack, defense in pairs:
        cell = _cell(selection, registry.load_task(task), attack, defense, results)
        cells.setdefault(cell.path, cell)
    return list(cells.values())


def _pairings(
    suite: Suite, selection: Selection, attacks: Catalogue, defenses: Catalogue
) -> list[Pairing]:
    """What was asked for; else the suite's own plan, less the lines whose plug-in is broken."""
    if selection.attack:
        return [Pairing("*", selection.attack, selection.defense or "none")]
    usable = [
        line
        for line in suite.plan
        if not _is_broken(attacks, line.attack) and not _is_broken(defenses, line.defense)
    ]
    if selection.defense:
        return [Pairing(line.task, line.attack, selection.defense) for line in usable]
    return usable


def _is_broken(catalogue: Catalogue, pattern: str) -> bool:
    """Whether a line of a plan names a plug-in that is there but cannot be loaded."""
    names = [split_parameters(part)[0] for part in split_names(pattern, "+")]
    known = catalogue.names()
    return any(n not in known and catalogue.broken_behind(n) is not None for n in names)


def _cell(
    selection: Selection, side: LoadedTask, attack: Chosen, defense: Chosen, results: Path
) -> Cell:
    path = cell_path(results, side.task.name, defense.name, attack.name, selection.seed)
    fingerprint = _fingerprint(side, attack, defense, selection.seed)
    old = old_record(path, Record)
    return Cell(
        suite=selection.suite,
        task=side.task,
        attack=attack,
        defense=defense,
        seed=selection.seed,
        path=path,
        fingerprint=fingerprint,
        cached=is_current(old, fingerprint) and not selection.force,
        expected_seconds=_seconds_of(old),
    )


def _fingerprint(side: LoadedTask, attack: Chosen, defense: Chosen, seed: int) -> str:
    parts = [records.SCHEMA_VERSION, side.digest, seed]
    for chosen, digest in ((attack, attack.entry.digest), (defense, defense.digest(side.task))):
        parts += [chosen.entry.name, digest, sorted(chosen.parameters.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def old_record(path: Path, kind: type[Old]) -> Old | None:
    """The record of an earlier run; one that cannot be read is as good as none."""
    try:
        return records.read(path, kind) if path.exists() else None
    except UserError:
        return None


def is_current(record: Measured | None, fingerprint: str) -> bool:
    """Failed ones run again; the others are done while nothing they depend on has changed."""
    done = (records.Status.OK, records.Status.UNSUPPORTED)
    return (
        record is not None
        and record.status in done
        and record.provenance.fingerprint == fingerprint
    )


def _seconds_of(record: Record | None) -> float:
    if record is None:
        return GUESSED_SECONDS
    return (record.prepare_seconds or 0.0) + sum(s.seconds or 0.0 for s in record.snapshots)


def groups(cells: Sequence[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """Cells that attack the same snapshots."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.task.name, cell.defense.name), []).append(cell)
    return found
