"""`leakboard snapshots`: build, list and verify what is stored."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import Job, Outcome, hand_over
from benchmark.files import write_atomically
from benchmark.paths import ROOT, cache_directory
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import get_suite, load_task
from benchmark.plugins.selection import choose, choose_tasks
from benchmark.snapshots.build import DefenseFailed, SnapshotSet
from benchmark.snapshots.sketch import Comparison, compare, sketch_all
from benchmark.snapshots.store import OtherFormat, check_file, read_manifest
from benchmark.suites import NO_DEFENSE

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
    suite: str, task: str | None, defense: str, seed: int, defenses: Catalog
) -> list[SnapshotSet]:
    """The sets of snapshots that names and globs stand for."""
    tasks = choose_tasks(get_suite(suite), task or "*")
    selected = choose(defenses, "defense", defense)
    return [SnapshotSet(load_task(t), d, seed) for t in tasks for d in selected]


def build(
    engine: LocalEngine, sets: Sequence[SnapshotSet], force: bool, memory_limit_mb: float
) -> int:
    """Build what is missing; returns how many snapshots were made."""
    if force:
        for one in sets:
            one.remove()
    wanted = [(one, missing) for one in sets if (missing := one.missing())]
    _make(engine, wanted, memory_limit_mb, SnapshotSet.store)
    return sum(len(missing) for _, missing in wanted)


def _make(
    engine: LocalEngine,
    wanted: Sequence[tuple[SnapshotSet, Sequence[int]]],
    memory_limit_mb: float,
    keep: Callable[[SnapshotSet, Sequence[int], Outcome], None],
) -> None:
    """Run the defenses' clients and hand over what they made."""

    def finished(one: SnapshotSet, indices: Sequence[int], outcome: Outcome) -> list[Job]:
        try:
            keep(one, indices, outcome)
        except DefenseFailed as problem:
            raise UserError(f"{outcome.job.label}: {problem.reason}.") from problem
        return []

    jobs = [
        one.job(indices, BUILD_SECONDS, memory_limit_mb, partial(finished, one, indices))
        for one, indices in wanted
    ]
    engine.run(jobs, hand_over)


def stored() -> list[dict[str, object]]:
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
        good = [index for index in one.indices if _is_intact(one, index, verdicts)]
        intact += [(one, good)] if good else []

    def keep(one: SnapshotSet, indices: Sequence[int], outcome: Outcome) -> None:
        one.discard_staging(outcome)
        for index, update in one.updates(indices, outcome):
            verdicts.append(_judge(one, index, sketch_all(update.tensors)))

    _make(engine, intact, memory_limit_mb, keep)
    return verdicts


def _is_intact(one: SnapshotSet, index: int, verdicts: list[Verdict]) -> bool:
    """Whether a snapshot is stored as it was made; one that was edited or cut gets its verdict."""
    path = one.path(index)
    if not path.exists() and not path.with_suffix(".json").exists():
        return False
    try:
        check_file(path, read_manifest(path))
        one.read_truth(index)
    except OtherFormat:
        return False
    except UserError as error:
        verdicts.append(Verdict("damaged", False, str(error)))
        return False
    return True


def _judge(one: SnapshotSet, index: int, fresh: Sketch) -> Verdict:
    manifest = read_manifest(one.path(index))
    if manifest.digest != one.digest(index, one.read_truth(index).batch_digest):
        return Verdict("outdated", False, f"{one.path(index)} was made from other inputs.")
    word = compare(manifest.sketch, fresh)
    for digest, published in _published(one, index):
        if digest == manifest.digest and compare(published, fresh) is Comparison.DIFFERENT:
            word = Comparison.DIFFERENT
    fine = word is not Comparison.DIFFERENT
    return Verdict(str(word), fine, f"{one.path(index)} is not what a new build gives.")


# ------------------------------------------------------------------------------------- reference


def _published(one: SnapshotSet, index: int) -> Iterator[tuple[str, Sketch]]:
    """The project's own sketch of a snapshot, where it was published."""
    suite, _, task = one.side.task.name.partition("/")
    path = REFERENCE / f"{suite}.json"
    if one.defense.name != NO_DEFENSE or one.seed != 0 or not path.exists():
        return
    for entry in json.loads(path.read_text()).get(task, [])[index : index + 1]:
        yield entry["digest"], entry["sketch"]


def publish(sets: Sequence[SnapshotSet], suite: str) -> Path:
    """Write the stored sketches as the reference of a suite."""
    content: dict[str, list[dict[str, object]]] = {}
    for one in sets:
        manifests = [read_manifest(one.path(index)) for index in one.indices]
        content[one.side.task.name.partition("/")[2]] = [
            {
                "digest": manifest.digest,
                "sketch": {n: [float(f"{x:.6g}") for x in v] for n, v in manifest.sketch.items()},
            }
            for manifest in manifests
        ]
    path = REFERENCE / f"{suite}.json"
    write_atomically(path, json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")
    return path
