"""Parts of a plan for the jobs of an array: even by expected time, and agreed upon by all of them.

Each job plans on its own, and expected times change as records appear. So the first one to start
writes down which cell belongs to which part, beside the records, and the others follow it.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmark.errors import UserError
from benchmark.files import Strict, read_model, write_model
from benchmark.runs.plan import Cell, PlannedRun

AnyRun = TypeVar("AnyRun", bound=PlannedRun)
PIECES = 8
"""A part is made of at least so many pieces where cells are short enough."""


@dataclass(frozen=True)
class Shard:
    """One part of a plan: the `number`-th of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `2/8`."""
        first, slash, last = text.partition("/")
        if not (slash and first.isdecimal() and last.isdecimal() and len(text) < 20):
            raise UserError(f"--shard {text!r} is not of the form i/n, such as 2/8.")
        shard = cls(int(first), int(last))
        if not 1 <= shard.number <= shard.count:
            raise UserError(f"--shard {text} is out of range; parts are counted from 1 to n.")
        return shard


class ShardTable(Strict):
    """Which cell of a plan belongs to which part."""

    shards: dict[str, int]
    """Number of the part by the path of the record, relative to the results folder."""


def take_shard(
    cells: Sequence[AnyRun], shard: Shard, results: Path, write: bool = True
) -> list[AnyRun]:
    """The cells of one part, in the order of the plan; `write` keeps the assignment for others."""
    names = {_name(cell, results): cell for cell in cells}
    key = hashlib.sha256("\n".join([str(shard.count), *sorted(names)]).encode()).hexdigest()
    path = results / f".shards-{key[:24]}.json"
    assigned = _stored(path, names)
    if assigned is None:
        assigned = assign(cells, shard.count, results)
        if write:
            assigned = _agree(path, assigned)
    return [cell for name, cell in names.items() if assigned[name] == shard.number]


def _agree(path: Path, assigned: dict[str, int]) -> dict[str, int]:
    """Write an assignment down, unless another job was faster: then that one counts."""
    mine = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    write_model(mine, ShardTable(shards=assigned))
    try:
        if _stored(path, assigned) is None:
            path.unlink(missing_ok=True)  # damaged
        with suppress(FileExistsError):
            os.link(mine, path)
    finally:
        mine.unlink()
    return _stored(path, assigned) or assigned


def _stored(path: Path, names: Iterable[str]) -> dict[str, int] | None:
    try:
        stored = read_model(path, ShardTable).shards
    except UserError:
        return None  # not there, or not readable: made anew
    return stored if stored.keys() == set(names) else None


def assign(cells: Sequence[PlannedRun], count: int, results: Path) -> dict[str, int]:
    """The longest pieces first, each to the part that has least to do so far."""
    loads = [(0.0, number) for number in range(1, count + 1)]
    assigned: dict[str, int] = {}
    for piece in _pieces(cells, count):
        load, number = heapq.heappop(loads)
        heapq.heappush(loads, (load + _seconds(piece), number))
        assigned |= {_name(cell, results): number for cell in piece}
    return assigned


def _pieces(cells: Sequence[PlannedRun], count: int) -> list[list[PlannedRun]]:
    """Cells on the same snapshots together, so that few jobs build them, in pieces that fit."""
    longest = _seconds(cells) / count / PIECES
    found: list[list[PlannedRun]] = []
    current: dict[tuple[object, ...], tuple[list[PlannedRun], float]] = {}
    for cell in cells:
        group, seconds = _group(cell), _seconds([cell])
        piece, taken = current.get(group, ([], 0.0))
        if not piece or taken + seconds > longest:
            piece, taken = [], 0.0
            found.append(piece)
        piece.append(cell)
        current[group] = piece, taken + seconds
    return sorted(found, key=lambda piece: (-_seconds(piece), str(piece[0].path.name)))


def _group(cell: PlannedRun) -> tuple[object, ...]:
    alike = (cell.task.name, cell.defense.name)
    return alike if isinstance(cell, Cell) else (*alike, cell.seed)


def _seconds(cells: Iterable[PlannedRun]) -> float:
    return sum(max(cell.expected_seconds, 0.01) for cell in cells)


def _name(cell: PlannedRun, results: Path) -> str:
    return os.path.relpath(cell.path, results)
