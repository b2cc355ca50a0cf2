"""Which results may be compared: those of the same task, version, defense, seed and snapshots.

And with what: the best baseline among them, which others have to beat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from benchmark.metrics.table import METRICS, on_boards
from benchmark.results.schema import MetricValue, Record, Score

Item = TypeVar("Item")


@dataclass(frozen=True)
class Comparable(Generic[Item]):
    """Results on the very same snapshots, and those that were ruled out or failed before any."""

    task: str
    version: int
    defense: str
    seed: int
    snapshots: str
    """Digest over the snapshots; empty where nothing was attacked."""
    current: bool
    """Whether these are the newest snapshots of this version, defense and seed. Snapshots change
    with the code that makes them, and results on former ones may still lie about."""
    items: tuple[Item, ...]


Place = tuple[str, int, str, int]
"""Task, version, defense and seed."""


def comparable(
    items: Iterable[Item], record_of: Callable[[Item], Record]
) -> list[Comparable[Item]]:
    """Results in groups that may be compared, by place and then the newest snapshots first."""
    places: dict[Place, list[Item]] = defaultdict(list)
    for item in items:
        record = record_of(item)
        place = (record.task, record.task_version, record.defense_name, record.seed)
        places[place].append(item)
    return [group for place in sorted(places) for group in _split(place, places[place], record_of)]


def _split(
    place: Place, items: list[Item], record_of: Callable[[Item], Record]
) -> Iterable[Comparable[Item]]:
    """Results of one place by their snapshots; those without any join the newest."""
    found: dict[str, list[Item]] = defaultdict(list)
    newest: dict[str, datetime] = {}
    for item in items:
        digest, created = record_of(item).snapshot_set, record_of(item).provenance.created
        found[digest].append(item)
        newest[digest] = max(created, newest.get(digest, created))
    without = found.pop("", [])
    order = sorted(found, key=lambda digest: (newest[digest], digest), reverse=True)
    if not order:
        yield Comparable(*place, "", True, tuple(without))
    for rank, digest in enumerate(order):
        members = (*found[digest], *(without if rank == 0 else ()))
        yield Comparable(*place, digest, rank == 0, members)


@dataclass(frozen=True)
class Guess:
    """What the best baseline reaches on one metric: others must beat it to have read anything."""

    attack: str
    value: MetricValue


def best_guesses(baselines: Iterable[tuple[str, Score]]) -> dict[str, Guess]:
    """The best baseline for each recovery metric that boards show, of attacks on one board."""
    found: dict[str, Guess] = {}
    for attack, score in baselines:
        for name, value in score.metrics.items():
            metric = METRICS.get(name)
            if metric is None or metric.kind != "recovery" or not on_boards(name):
                continue
            if name not in found or metric.better(value.mean, found[name].value.mean):
                found[name] = Guess(attack, value)
    return found
