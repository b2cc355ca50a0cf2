"""Runs a recorded cell again from what its record says, and compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmark.errors import UserError
from benchmark.execution.machine import versions
from benchmark.files import file_digest, read_model
from benchmark.metrics.table import of_kind
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.names import variant
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import ConfiguredSubmission, choose
from benchmark.results.measure import score_record
from benchmark.results.schema import MetricValue, Record, Score
from benchmark.results.store import UTILITY_SUFFIX, fresh_score
from benchmark.results.verification import Agreement, Verification, mark
from benchmark.results.withholding import answers_digest
from benchmark.runs.plan import Cell, Selection, make_cell
from benchmark.snapshots.build import SnapshotSet
from benchmark.status import Status
from benchmark.suites import LoadedTask


class NotComparable(Exception):
    """A record that cannot be repeated here; the message is the reason."""


@dataclass(frozen=True)
class Repetition:
    """A record beside the cell that repeats it."""

    path: Path
    record: Record
    cell: Cell


def repetition(
    path: Path, catalogs: tuple[Catalog, Catalog], out: Path, changed: bool = False
) -> Repetition:
    """What to run for a record, filed below another folder; raises `NotComparable`.

    With `changed`, records that other code has made are repeated, too, if the task is the same.
    """
    if path.name.endswith(UTILITY_SUFFIX):
        raise NotComparable("it is the record of a training; only attacks are repeated")
    try:
        record = read_model(path, Record)
        side = _task(record)
        attack = _configured(catalogs[0], "attack", record.attack, record.attack_parameters)
        defense = _configured(catalogs[1], "defense", record.defense, record.defense_parameters)
    except UserError as error:
        raise NotComparable(str(error).rstrip(".")) from error
    choice = Selection(record.suite, seed=record.seed, force=True)
    cell = make_cell(choice, side, attack, defense, out)
    for reason in () if changed else _reasons(record, cell, side):
        raise NotComparable(reason)
    return Repetition(path, record, cell)


def _task(record: Record) -> LoadedTask:
    """The task with its weights and corpus; raises `UserError` where one of them is missing."""
    task = all_tasks().get(record.task)
    if task is None:
        raise NotComparable(f"there is no task {record.task} any more")
    if task.version != record.task_version:
        raise NotComparable(
            f"it is of version {record.task_version} of {task.name}, which is at version "
            f"{task.version} now"
        )
    return load_task(task)


def _configured(
    catalog: Catalog, kind: str, name: str, parameters: dict[str, bool | int | float | str]
) -> ConfiguredSubmission:
    found = choose(catalog, kind, variant(name, parameters))
    if len(found) != 1:
        raise NotComparable(f"{name} is not the name of one {kind}")
    return found[0]


def _reasons(record: Record, cell: Cell, side: LoadedTask) -> Iterator[str]:
    """Why the cell of today is another one than that of the record, the clearest reason first."""
    made = record.provenance
    commit = f"; commit {made.git_commit[:12]} had it" if made.git_commit else ""
    if record.told is None:
        yield "it is from before records tell what an attack was handed; run the cell again"
    if made.attack_digest != cell.attack.entry.digest:
        yield f"the code of {record.attack} has changed since{commit}"
    if made.defense_digest != cell.defense.digest(cell.task):
        yield f"the code of {record.defense} has changed since{commit}"
    if record.told != sorted(cell.told):
        yield f"{record.attack} is handed other knowledge now than it was then{commit}"
    if _other_snapshots(record, cell, side):
        yield "it was made from other snapshots than today's; run the cell again"
    if made.fingerprint != cell.fingerprint:
        then, now = made.packages, versions()
        changed = [n for n in now if then.get(n) != now[n]]
        libraries = ", ".join(f"{n} {then.get(n, 'unknown')} then, {now[n]} now" for n in changed)
        yield f"the harness or its libraries have changed since ({libraries or 'the code'}){commit}"


def _other_snapshots(record: Record, cell: Cell, side: LoadedTask) -> bool:
    snapshots = SnapshotSet(side, cell.defense, cell.seed)
    return any(
        result.index not in snapshots.indices
        or result.digest
        != snapshots.digest(result.index, snapshots.read_truth(result.index).batch_digest)
        for result in record.snapshots
    )


# ------------------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class RepeatVerdict:
    """What a repetition says of a record."""

    path: Path
    word: Agreement | Literal["different", "not comparable"]
    differences: Sequence[str] = ()

    @property
    def agrees(self) -> bool:
        """Whether the record deserves its mark."""
        return self.word in ("same", "within interval")


def compare_records(wanted: Repetition, again: Record) -> RepeatVerdict:
    """The same answers, else metrics within the intervals of the record."""
    before, path = wanted.record, wanted.path
    if before.status is not again.status:
        words = f"it was {_ended(before)}, and is {_ended(again)} now"
        return RepeatVerdict(path, "different", [words])
    if _same_answers(before, again):
        return RepeatVerdict(path, "same")
    if before.status is Status.UNSUPPORTED:
        words = f"it was {_ended(before)}, and is {_ended(again)} now"
        return RepeatVerdict(path, "different", [words])
    old, new = _recorded_scores(wanted), _scores(wanted, again)
    if old is None:
        words = "its figures are missing; fetch them again, or run `leakboard score` first"
        return RepeatVerdict(path, "not comparable", [words])
    changes = [_changes(before, again)]
    outside = list(_outside(old, new))
    if outside:
        return RepeatVerdict(path, "different", [*changes, *outside])
    return RepeatVerdict(path, "within interval", changes)


def _ended(record: Record) -> str:
    return f"{record.status} ({record.reason})" if record.reason else str(record.status)


def _answers(record: Record) -> dict[int, tuple[object, ...]]:
    if record.status is Status.UNSUPPORTED:
        return {-1: (record.reason,)}
    return {s.index: (s.status, s.sentences, s.token_types) for s in record.snapshots}


def _same_answers(before: Record, again: Record) -> bool:
    """Answer by answer, or by their digest where a record was published without them."""
    if before.withheld:
        return before.withheld == answers_digest(again)
    return _answers(before) == _answers(again)


def _changes(before: Record, again: Record) -> str:
    if before.withheld:
        return "its answers are others now; which ones was not published"
    differing = [i for i, answer in _answers(before).items() if _answers(again).get(i) != answer]
    return f"{len(differing)} of {len(before.snapshots)} snapshots have other answers"


def _recorded_scores(wanted: Repetition) -> Score | None:
    """The figures of a record: computed again, or those that it was published with."""
    if wanted.record.withheld:
        return fresh_score(wanted.path)
    return _scores(wanted, wanted.record)


def _scores(wanted: Repetition, record: Record) -> Score:
    side = load_task(wanted.cell.task)
    snapshots = SnapshotSet(side, wanted.cell.defense, wanted.cell.seed)
    truths = [snapshots.read_truth(index).truth() for index in snapshots.indices]
    specials = int(side.tokenizer.num_special_tokens_to_add())
    return score_record(record, truths, side.decode, side.special_ids, "", specials)


def _outside(old: Score, new: Score) -> Iterator[str]:
    """Recovery metrics whose new mean lies outside the interval of the record."""
    for metric in of_kind("recovery"):
        before, now = old.metrics.get(metric.name), new.metrics.get(metric.name)
        if before is None and now is None:
            continue
        if before is None or now is None or not before.low <= now.mean <= before.high:
            yield f"{metric.name} was {_interval(before)}, and is {_interval(now)} now"


def _interval(value: MetricValue | None) -> str:
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]" if value else "not there"


def mark_record(verdict: RepeatVerdict, again: Record) -> None:
    """Put the mark of a repetition that agrees beside the record, and take away any other."""
    if verdict.word == "different" or verdict.word == "not comparable":
        mark(verdict.path, None)
        return
    made = again.provenance
    found = Verification(
        record_digest=file_digest(verdict.path),
        agreement=verdict.word,
        date=made.created,
        machine=f"{made.processor}, {made.platform}",
        device=made.device,
        packages=made.packages,
        git_commit=made.git_commit,
    )
    mark(verdict.path, found)
