"""A matrix of the front page as data: tasks by family as lines, submissions as columns.

A line is one board, or the boards of one task and seed under several defenses: all its figures come
from the same private batches. A task with results of several seeds has a line for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.schema import PanelMember
from leaderboard.data.catalog import TaskRow
from leaderboard.data.ordering import by_family
from leaderboard.data.ranking import Entry
from leaderboard.data.rows import Row

NOT_RUN = "not run"
TOKENS_ONLY = "tokens only"
OTHER_TEXT = "other text"

LineKey = tuple[str, int | None]
"""A task and a seed; None where nothing was run on the task."""


@dataclass(frozen=True)
class Cell:
    """One square: a ranked entry, or a word that says why there is none."""

    entry: Entry | None = None
    """In a defense's square, of the strongest attack with the rank of the defense: 0 where the
    panel is incomplete."""
    tried: bool = False
    """There was an attempt that counts: not where the column was not run, or is ruled out by what
    it declares, or has not faced the whole panel."""
    leads: bool = False
    label: str = NOT_RUN
    reason: str = ""
    rivals: int = 0
    """In a defense's square: how many rows the entry was the strongest of."""
    lacking: tuple[PanelMember, ...] = ()
    """In a defense's square: attacks of the panel that failed or were not run."""

    @property
    def cut(self) -> int:
        """Snapshots whose search the time limit cut."""
        return self.entry.row.cut if self.entry else 0


@dataclass(frozen=True)
class Head:
    """A column: one attack or one defense."""

    row: Row
    """Any row of the column; it carries names and parameters."""
    reference: bool = False
    """A baseline attack, or no defense at all: what the others are compared with."""


@dataclass(frozen=True)
class Line:
    """One task with one seed across the columns."""

    task: TaskRow
    seed: int | None
    says_seed: bool
    """The task has lines of several seeds, so each must tell which it is."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """The tasks of one family."""

    family: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Matrix:
    """Tasks of a suite as lines, attacks or defenses as columns, one metric."""

    metric: str
    heads: tuple[Head, ...]
    groups: tuple[Group, ...]
    token_sets: tuple[str, ...] = ()
    """Attacks left out because they write no sentences."""
    quiet: tuple[TaskRow, ...] = ()
    """Tasks left out because there is nothing to compare on them."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of all groups."""
        return tuple(line for group in self.groups for line in group.lines)

    @property
    def contested(self) -> bool:
        """An attack that reads the gradient has a number; else there are only baselines to see."""
        pairs = ((h, c) for line in self.lines for h, c in zip(self.heads, line.cells, strict=True))
        return any(cell.entry and not head.row.baseline for head, cell in pairs)


Column = tuple[Head, Mapping[LineKey, Cell]]
"""A head with its cells by task and seed."""


def line_keys(tasks: Sequence[TaskRow], seeds: Mapping[str, Iterable[int]]) -> list[LineKey]:
    """A key for each seed of each task."""
    keys: list[LineKey] = []
    for task in tasks:
        own = sorted(seeds.get(task.name, ()))
        keys += [(task.name, seed) for seed in own] if own else [(task.name, None)]
    return keys


def make_matrix(
    metric: str,
    tasks: Sequence[TaskRow],
    keys: Sequence[LineKey],
    columns: Sequence[Column],
    token_sets: tuple[str, ...] = (),
) -> Matrix:
    """Lines and groups of columns that are in order already.

    Tasks on which only columns that everything is measured against were run have no line, unless
    that is all there is.
    """
    contested = {
        name
        for head, cells in columns
        for (name, _), cell in cells.items()
        if not head.reference and cell.label != TOKENS_ONLY and (cell.entry or cell.reason)
    }
    shown = [task for task in tasks if task.name in contested or not contested]
    groups = tuple(_group(family, own, keys, columns) for family, own in by_family(shown))
    heads = tuple(head for head, _ in columns)
    quiet = tuple(task for task in tasks if task not in shown)
    return Matrix(metric, heads, groups, token_sets, quiet)


def _group(
    family: str,
    tasks: Sequence[TaskRow],
    keys: Sequence[LineKey],
    columns: Sequence[Column],
) -> Group:
    lines = []
    for task in tasks:
        own = [key for key in keys if key[0] == task.name]
        for key in own:
            cells = tuple(cells[key] for _, cells in columns)
            lines.append(Line(task, key[1], len(own) > 1, cells))
    return Group(family, tuple(lines))


@dataclass(frozen=True)
class MissingResult:
    """One reason for which an attack has no number, with all the tasks that it concerns."""

    head: Head
    label: str
    reason: str
    tasks: tuple[str, ...]


def missing_results(matrices: Iterable[Matrix]) -> tuple[MissingResult, ...]:
    """Why squares are gray, each attack and reason once."""
    heads: dict[tuple[str, str, str], Head] = {}
    tasks: dict[tuple[str, str, str], dict[str, None]] = {}
    for matrix in matrices:
        for line in matrix.lines:
            for head, cell in zip(matrix.heads, line.cells, strict=True):
                if not cell.reason or cell.label == TOKENS_ONLY:
                    continue
                key = (head.row.attack, cell.label, cell.reason)
                heads.setdefault(key, head)
                tasks.setdefault(key, {})[line.task.name] = None
    return tuple(
        MissingResult(heads[key], key[1], key[2], tuple(tasks[key])) for key in sorted(heads)
    )
