"""Computes metrics from stored records: a new metric needs no new run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from benchmark.errors import UserError
from benchmark.files import file_digest, read_model, write_model
from benchmark.metrics.decoding import Decode
from benchmark.metrics.table import on_boards
from benchmark.paths import ROOT
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.comparison import Guess, best_guesses, comparable
from benchmark.results.measure import score_record
from benchmark.results.schema import Record, Score
from benchmark.results.store import fresh_score, read_records, record_files, score_path
from benchmark.results.verification import read_mark
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.checked_salt import checked_salt_digest
from benchmark.snapshots.store import inputs_digest
from benchmark.spec import Truth
from benchmark.suites import LoadedTask, Task


@dataclass(frozen=True)
class Scored:
    """What became of one record file."""

    path: Path
    outcome: str
    """`scored`, `unchanged`, or the sentence why it was left out."""
    failed: bool = False
    """Whether it was left out because something that scoring needs is missing or damaged."""


def score_all(results: Path, force: bool = False) -> Iterator[Scored]:
    """Score every record below a folder; fresh scores are left alone."""
    tasks = all_tasks()
    for path in record_files(results):
        try:
            record, digest = read_model(path, Record), file_digest(path)
        except UserError as error:
            yield Scored(path, str(error).rstrip("."), failed=True)
            continue
        if record.withheld:
            yield _taken_over(path)
        elif not force and _is_fresh(path, digest):
            yield Scored(path, "unchanged")
        elif record.task not in tasks:
            yield Scored(path, f"there is no task {record.task} any more")
        else:
            yield _attempt(path, record, digest, tasks[record.task])


def _attempt(path: Path, record: Record, digest: str, task: Task) -> Scored:
    """Score one record; what is wrong with its task costs no other record its score."""
    try:
        return Scored(path, _score(path, record, digest, load_task(task)))
    except UserError as error:
        return Scored(path, str(error).rstrip("."), failed=True)


def _taken_over(path: Path) -> Scored:
    """A published record has the score that it was published with, or none."""
    if fresh_score(path) is not None:
        return Scored(path, "unchanged")
    return Scored(
        path,
        "it was published without what was recovered, so its score cannot be computed again, and "
        "the one it was published with is missing or of another record; fetch both again",
        failed=True,
    )


def _is_fresh(path: Path, digest: str) -> bool:
    try:
        score = read_model(score_path(path), Score)
    except UserError:
        return False
    return score.record_digest == digest and score.scorer_digest == scorer_digest()


@cache
def scorer_digest() -> str:
    """Of everything that turns a recovery into numbers."""
    files = sorted((ROOT / "benchmark" / "metrics").glob("*.py"))
    files.append(ROOT / "benchmark" / "results" / "measure.py")
    return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()


def _score(path: Path, record: Record, digest: str, side: LoadedTask) -> str:
    batches = [] if record.ruled_out else _batches(record, side)
    if any(batch.stale for batch in batches) or _other_count(record, side):
        return "it was made from other snapshots than today's; run the cell again"
    truths = [batch.truth for batch in batches]
    specials = int(side.tokenizer.num_special_tokens_to_add())
    score = score_record(record, truths, _decoder(side), side.special_ids, digest, specials)
    same = hashlib.sha256("".join(batch.digest for batch in batches).encode()).hexdigest()
    known = {"scorer_digest": scorer_digest(), "truths": same if batches else ""}
    write_model(score_path(path), score.model_copy(update=known))
    return "scored"


@cache
def _decoder(side: LoadedTask) -> Decode:
    """All records of a task have the same true sentences and many tokens in common."""
    return lru_cache(maxsize=1 << 17)(side.decode)


def _other_count(record: Record, side: LoadedTask) -> bool:
    """Whether the record is of a time when the task had fewer or more snapshots."""
    return bool(record.snapshots) and len(record.snapshots) != side.task.snapshots


@dataclass(frozen=True)
class PrivateSide:
    """What lies behind one snapshot of a record."""

    truth: Truth
    digest: str
    """Over batch, weights, settings and salt: the same under every defense."""
    stale: bool
    """Whether this is not the batch that was attacked."""


def _batches(record: Record, side: LoadedTask) -> list[PrivateSide]:
    """The private batches of a record."""
    attacked = {result.index: result.digest for result in record.snapshots}
    made_by = f"{record.defense} {record.provenance.defense_digest}"
    snapshots = SnapshotSet(side, _unknown_defense(record), record.seed)
    salted, found = checked_salt_digest(side), []
    for index in snapshots.indices:
        stored = snapshots.read_truth(index)
        task = (stored.batch_digest, side.settings_digest, salted)
        digest = inputs_digest(*task, made_by, record.defense_parameters, record.seed, index)
        private = inputs_digest(*task, "", {}, record.seed, index)
        stale = attacked.get(index, digest) != digest
        found.append(PrivateSide(stored.truth(), private, stale))
    return found


def _unknown_defense(record: Record) -> ConfiguredSubmission:
    """A stand-in with the defense's name: truths do not depend on the defense itself."""
    entry = Entry("defense", record.defense, "", "", "", "", False, {})
    return ConfiguredSubmission(entry, record.defense_parameters)


# -------------------------------------------------------------------------------- for programs


def rows(results: Path) -> list[dict[str, object]]:
    """One row a record for `leakboard show`, scored or not, in the order of the files."""
    found = list(read_records(record_files(results), Record))
    scores = {path: fresh_score(path) for path, _ in found}
    made: dict[Path, dict[str, object]] = {}
    for group in comparable(found, lambda item: item[1]):
        baselines = [(r.attack_name, scores[path]) for path, r in group.items if r.baseline]
        guesses = best_guesses((name, score) for name, score in baselines if score)
        for path, record in group.items:
            row = _row(record, scores[path], group.current, guesses)
            mark = read_mark(path)
            made[path] = row | {"verified": mark.date if mark else None}
    return [made[path] for path, _ in found]


def _row(
    record: Record, score: Score | None, current: bool, guesses: Mapping[str, Guess]
) -> dict[str, object]:
    seconds = [s.seconds for s in record.snapshots if s.seconds is not None]
    metrics = score.metrics if score else {}
    return {
        "suite": record.suite,
        "task": record.task,
        "task_version": record.task_version,
        "attack": record.attack_name,
        "defense": record.defense_name,
        "seed": record.seed,
        "snapshots": record.snapshot_set,
        "current": current,
        "baseline": record.baseline,
        "status": str(record.status),
        "reason": record.reason,
        "metrics": {
            name: value.model_dump(exclude={"values"})
            | {"baseline": guesses[name].value.mean if name in guesses else None}
            for name, value in metrics.items()
            if on_boards(name)
        },
        "seconds": sum(seconds) / len(seconds) if seconds else None,
        "stopped_by_clock": sum(s.stopped_by_clock for s in record.snapshots),
        "peak_mb": record.peak_mb,
        "device": record.provenance.device,
    }
