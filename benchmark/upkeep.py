"""`leakboard snapshots`: build, list and verify what is stored."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import registry
from benchmark.building import DefenseFailed, SnapshotSet, failure
from benchmark.engines.local import LocalEngine
from benchmark.errors import UserError
from benchmark.jobs import Job, Outcome
from benchmark.paths import ROOT, cache_directory
from benchmark.planning import choose, choose_tasks
from benchmark.records import write_atomically
from benchmark.registry import Catalogue
from benchmark.snapshots import Comparison, check_file, compare, read_sheet, sketch_file

BUILD_SECONDS = 3600.0
REFERENCE = ROOT / "tasks" / "reference"
"""Sketches of the project's own builds, one file a suite, to compare other machines with."""
Sketch = dict[str, list[float]]


@dataclass(frozen=True)
class Verdict:
    """What verification says of one snapshot."""

    word: str
    fine: bool
    sentence: str


def select(
    suite: str, task: str | None, defense: str, seed: int, defenses: Catalogue
) -> list[SnapshotSet]:
    """The sets of snapshots that names and globs stand for."""
    tasks = choose_tasks(registry.suite(suite), task or "*")
    chosen = choose(defenses, "defense", defense)
    return [SnapshotSet(registry.load_task(t), d, seed) for t in tasks for d in chosen]


def build(
    engine: LocalEngine, sets: Sequence[SnapshotSet], force: bool, memory_limit_mb: float
) -> int:
    """Build what is missing; returns how many snapshots were made."""
    if force:
        for one in sets:
            one.remove()
    wanted = [(one, missing) for one in sets if (missing := one.missing())]
    _make(engine, wanted, memory_limit_mb, lambda one, outcome: one.store(outcome))
    return sum(len(missing) for _, missing in wanted)


def _make(
    engine: LocalEngine,
    wanted: Sequence[tuple[SnapshotSet, Sequence[int]]],
    memory_limit_mb: float,
    keep: Callable[[SnapshotSet, Outcome], None],
) -> None:
    """Run the defenses' clients and hand over what they made."""
    jobs: list[Job] = []
    owner: dict[int, SnapshotSet] = {}
    for one, indices in wanted:
        jobs.append(one.job(indices, BUILD_SECONDS, memory_limit_mb))
        owner[id(jobs[-1])] = one

    def finished(outcome: Outcome) -> list[Job]:
        try:
            keep(owner[id(outcome.job)], outcome)
        except DefenseFailed as problem:
            raise UserError(f"{outcome.job.label}: {problem.reason}.") from problem
        return []

    engine.run(jobs, finished)


def stored() -> list[dict[str, Any]]:
    """One row for each stored set of snapshots."""
    base = cache_directory() / "snapshots"
    found: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(base.rglob("*.safetensors")):
        found[path.parent].append(path)
    return [
        {
            "task": "/".join(folder.relative_to(base).parts[:-2]),
            "defense": folder.parent.name,
            "seed": int(folder.name.removeprefix("s")),
            "snapshots": len(paths),
            "mb": round(sum(path.stat().st_size for path in paths) / 2**20, 1),
        }
        for folder, paths in found.items()
    ]


# ---------------------------------------------------------------------------------------- verify


def verify(
    engine: LocalEngine, sets: Sequence[SnapshotSet], memory_limit_mb: float
) -> list[Verdict]:
    """Check stored files, then build them anew and compare with the stored and published sketch."""
    verdicts: list[Verdict] = []
    intact: list[tuple[SnapshotSet, list[int]]] = []
    for one in sets:
        good = [i for i in one.indices if not _damage(one, i, verdicts) and one.path(i).exists()]
        intact += [(one, good)] if good else []

    def keep(one: SnapshotSet, outcome: Outcome) -> None:
        made = {event["index"]: event for event in outcome.events("updated")}
        for item in outcome.job.payload["batches"]:
            if item["index"] not in made:
                raise failure(outcome)
            fresh = sketch_file(outcome.made / item["out"])
            verdicts.append(_judge(one, item["index"], fresh))
        one.discard_drafts(outcome)

    _make(engine, intact, memory_limit_mb, keep)
    return verdicts


def _damage(one: SnapshotSet, index: int, verdicts: list[Verdict]) -> bool:
    """Note a stored snapshot that was edited or cut."""
    path = one.path(index)
    if not path.exists() and not path.with_suffix(".json").exists():
        return False
    try:
        check_file(path, read_sheet(path))
        one.read_truth(index)
    except UserError as error:
        verdicts.append(Verdict("damaged", False, str(error)))
        return True
    return False


def _judge(one: SnapshotSet, index: int, fresh: Sketch) -> Verdict:
    sheet = read_sheet(one.path(index))
    if sheet.digest != one.digest(index, one.read_truth(index).batch_digest):
        return Verdict("outdated", False, f"{one.path(index)} was made from other inputs.")
    word = compare(sheet.sketch, fresh)
    for digest, published in _published(one, index):
        if digest == sheet.digest and compare(published, fresh) is Comparison.DIFFERENT:
            word = Comparison.DIFFERENT
    fine = word is not Comparison.DIFFERENT
    return Verdict(str(word), fine, f"{one.path(index)} is not what a new build gives.")


# ------------------------------------------------------------------------------------- reference


def _published(one: SnapshotSet, index: int) -> Iterator[tuple[str, Sketch]]:
    """The project's own sketch of a snapshot, where it was published."""
    suite, _, task = one.side.task.name.partition("/")
    path = REFERENCE / f"{suite}.json"
    if one.defense.name != "none" or one.seed != 0 or not path.exists():
        return
    for entry in json.loads(path.read_text()).get(task, [])[index : index + 1]:
        yield entry["digest"], entry["sketch"]


def publish(sets: Sequence[SnapshotSet], suite: str) -> Path:
    """Write the stored sketches as the reference of a suite."""
    content: dict[str, list[dict[str, Any]]] = {}
    for one in sets:
        sheets = [read_sheet(one.path(index)) for index in one.indices]
        content[one.side.task.name.partition("/")[2]] = [
            {
                "digest": sheet.digest,
                "sketch": {n: [float(f"{x:.6g}") for x in v] for n, v in sheet.sketch.items()},
            }
            for sheet in sheets
        ]
    path = REFERENCE / f"{suite}.json"
    write_atomically(path, json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")
    return path
