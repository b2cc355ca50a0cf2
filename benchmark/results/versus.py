"""Two attacks, or one attack in two places, compared over everything that both were run on.

Results on the same snapshots, or on the same private text under two defenses, are compared in
pairs; others, such as one attack on two tasks, as two samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from benchmark.errors import UserError
from benchmark.metrics.paired import Floats, holm, shuffle_p_value, sign_flip_p_values
from benchmark.results.comparison import comparable
from benchmark.results.schema import Record
from benchmark.results.store import fresh_score, read_records, record_files
from benchmark.suites import NO_DEFENSE

ALL = "all together"


@dataclass(frozen=True)
class Side:
    """What is compared: an attack, on tasks and under a defense."""

    attack: str
    task: str = "*"
    """A glob over names with or without the suite."""
    defense: str = NO_DEFENSE

    @classmethod
    def parse(cls, text: str) -> Side:
        """`attack`, `attack@task` or `attack@task@defense`."""
        parts = text.split("@")
        if len(parts) > 3 or not all(parts):
            raise UserError(
                f"{text!r} is not of the form attack, attack@task or attack@task@defense."
            )
        return cls(*parts)

    def holds(self, record: Record) -> bool:
        """Whether a record is meant."""
        names = (record.task, record.task.partition("/")[2])
        return (record.attack_name, record.defense_name) == (self.attack, self.defense) and any(
            fnmatchcase(name, self.task) for name in names
        )


@dataclass(frozen=True)
class SideResult:
    """One scored record of a side, by one metric."""

    task: str
    seed: int
    snapshots: str
    truths: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Meeting:
    """Two sides on the same seed, or over all of them."""

    first_task: str
    second_task: str
    seed: int | None
    """None for all together."""
    paired: bool
    n: int
    first: float
    second: float
    p_value: float
    adjusted: float
    """By Holm's correction over all meetings but the one of all together."""

    @property
    def difference(self) -> float:
        """How much better the first is."""
        return self.first - self.second


def meetings(results: Path, first: Side, second: Side, metric: str) -> list[Meeting]:
    """Every meeting of two sides, and the one of all together where there are several."""
    mine, other = (_measured(results, side, metric) for side in (first, second))
    pairs = [(a, b) for a in mine for b in other if _meet(a, b, first, second)]
    found = [_meeting([pair]) for pair in pairs]
    adjusted = holm([meeting[-1] for meeting in found])
    made = [
        Meeting(a.task, b.task, a.seed, *figures, adjusted=float(p))
        for (a, b), figures, p in zip(pairs, found, adjusted, strict=True)
    ]
    if len(pairs) > 1:
        whole = _meeting(pairs)
        made.append(Meeting(ALL, ALL, None, *whole, adjusted=whole[-1]))
    return made


def _measured(results: Path, side: Side, metric: str) -> list[SideResult]:
    found = [
        (record, score)
        for path, record in read_records(record_files(results), Record)
        if side.holds(record) and (score := fresh_score(path))
    ]
    current = [g for g in comparable(found, lambda item: item[0]) if g.current]
    newest = {group.task: group.version for group in current}  # versions come in order
    return [
        SideResult(r.task, r.seed, r.snapshot_set, s.truths, tuple(s.metrics[metric].values))
        for group in current
        for r, s in group.items
        if group.version == newest[group.task] and metric in s.metrics
    ]


def _meet(a: SideResult, b: SideResult, first: Side, second: Side) -> bool:
    """The same seed and, unless each side names its own, the same task."""
    return a.seed == b.seed and (a.task == b.task or first.task != second.task)


def _is_paired(a: SideResult, b: SideResult) -> bool:
    same = (a.task, a.snapshots) == (b.task, b.snapshots)
    return (same or (bool(a.truths) and a.truths == b.truths)) and len(a.values) == len(b.values)


def _meeting(
    pairs: Sequence[tuple[SideResult, SideResult]],
) -> tuple[bool, int, float, float, float]:
    """Whether paired, how many snapshots, both means, and the p value."""
    paired = all(_is_paired(a, b) for a, b in pairs)
    first = _joined(a for a, _ in pairs)
    second = _joined(b for _, b in pairs)
    if paired:
        p_value = float(sign_flip_p_values((first - second)[None, :])[0])
    else:
        p_value = shuffle_p_value(first, second)
    return paired, len(first), float(first.mean()), float(second.mean()), p_value


def _joined(measured: Iterable[SideResult]) -> Floats:
    return np.concatenate([np.array(each.values) for each in measured])
