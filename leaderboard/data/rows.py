"""Reads a results directory into rows: one row for each recorded cell, with its fresh score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from benchmark.errors import UserError
from benchmark.metrics.table import METRICS
from benchmark.results.schema import Record, Score, SnapshotResult, Status
from benchmark.results.store import fresh_score, read_records, record_files, score_path
from benchmark.results.verification import Verification, read_mark

NOT_SCORED = "not scored yet"
STALE = "the record changed after it was scored; leakboard score brings it up to date"
UNSCORED = "leakboard score computes its metrics"


@dataclass(frozen=True)
class Row:
    """One cell of the leaderboard: (task, attack variant, defense variant, seed)."""

    record: Record
    score: Score | None = None
    """None where there is no score, or only one of an older version of the record."""
    stale: bool = False
    """There is a score, but of an older version of the record."""
    baseline: bool = False
    """The attack only guesses; others must beat it to have read anything."""
    verified: Verification | None = None
    """The mark of whoever has repeated the record as it is now."""

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.record.task

    @cached_property
    def attack(self) -> str:
        """The attack with the parameters that differ from its defaults."""
        return self.record.attack_name

    @cached_property
    def defense(self) -> str:
        """The defense with the parameters that differ from its defaults."""
        return self.record.defense_name

    @property
    def seed(self) -> int:
        """Seed of the run; several seeds are several rows."""
        return self.record.seed

    @cached_property
    def key(self) -> tuple[str, int, str, str, int]:
        """Names the cell and gives rows an order that does not depend on files."""
        return (self.task, self.record.task_version, self.defense, self.attack, self.seed)

    @cached_property
    def failures(self) -> tuple[SnapshotResult, ...]:
        """The snapshots that did not end well."""
        return tuple(s for s in self.record.snapshots if s.status is not Status.OK)

    @cached_property
    def total(self) -> int:
        """Snapshots that count, with those the score counts although the record lacks them."""
        scored = [value.n for value in self.score.metrics.values()] if self.score else []
        return max([len(self.record.snapshots), *scored])

    @property
    def failed(self) -> int:
        """Snapshots that count as a recovery of nothing: failed, or never reached."""
        return self.total - len(self.record.snapshots) + len(self.failures)

    @cached_property
    def failure_reasons(self) -> tuple[tuple[str, int], ...]:
        """What went wrong in the snapshots, with how often."""
        said = Counter(f"{s.status}: {s.reason}".removesuffix(": ") for s in self.failures)
        if missing := self.failed - len(self.failures):
            said[f"never reached ({self.record.status}: {self.record.reason})"] = missing
        return tuple(said.items())

    @property
    def measured(self) -> bool:
        """At least one snapshot was attacked without failure."""
        return len(self.failures) < len(self.record.snapshots)

    @property
    def ruled_out(self) -> bool:
        """The task or the defense is outside of what the attack declares: no attempt was made."""
        return self.record.ruled_out

    @cached_property
    def token_sets_only(self) -> bool:
        """The attack names token types and writes no sentence, so sentence metrics do not apply.

        An attack that says nothing at all is not one: it tried and found nothing.
        """
        if self.record.withheld:
            judged = self.score.metrics if self.score else {}
            return not any(name in METRICS and METRICS[name].needs_sentences for name in judged)
        snapshots = self.record.snapshots
        return not any(s.sentences for s in snapshots) and any(
            s.token_types is not None for s in snapshots
        )

    @property
    def status(self) -> str:
        """The word in the status column."""
        if self.measured:
            return Status.OK if self.score else NOT_SCORED
        if self.record.status is Status.OK and self.failures:
            return self.failures[0].status
        return self.record.status

    @property
    def reason(self) -> str:
        """Why there is no number, in the words of the record."""
        if self.measured:
            return "" if self.score else STALE if self.stale else UNSCORED
        spoken = self.record.reason or next((s.reason for s in self.failures if s.reason), "")
        return spoken or "the record gives no reason"

    @cached_property
    def seconds(self) -> float | None:
        """Mean time of the `recover` calls that ended well."""
        times = [
            s.seconds
            for s in self.record.snapshots
            if s.status is Status.OK and s.seconds is not None
        ]
        return fmean(times) if times else None

    @cached_property
    def cut(self) -> int:
        """Snapshots that the attack handed over early because the time limit was near."""
        return sum(s.stopped_by_clock for s in self.record.snapshots)

    @property
    def joint(self) -> bool:
        """Whether the seconds are shares of a joint run."""
        return any(s.joint for s in self.record.snapshots)


def load(results: Path, baselines: frozenset[str] = frozenset()) -> tuple[Row, ...]:
    """All rows below a results directory, in the order of their keys.

    A record that cannot be read is named and left out.

    `baselines` are the names of the attacks that only guess, for records that do not tell.

    Raises:
        UserError: the directory is missing, or two files hold the same cell.
    """
    if not results.is_dir():
        raise UserError(f"There is no results directory {results}; run `leakboard run` first.")
    found: dict[tuple[str, int, str, str, int], tuple[Path, Row]] = {}
    for path, record in read_records(record_files(results), Record):
        row = make_row(path, record, baselines)
        if row.key in found:
            other = found[row.key][0]
            raise UserError(f"{path} and {other} hold the same cell; delete one of them.")
        found[row.key] = (path, row)
    return in_order(row for _, row in found.values())


def make_row(path: Path, record: Record, baselines: frozenset[str]) -> Row:
    """The row of one record and its file, with the score beside it where that is fresh."""
    baseline = record.attack in baselines if record.baseline is None else record.baseline
    score, verified = fresh_score(path), read_mark(path)
    stale = score is None and score_path(path).exists()
    return Row(record, score, stale, baseline, verified)


def in_order(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows sorted by what they are."""
    return tuple(sorted(rows, key=lambda row: row.key))
