"""A matrix of the front page as data: tasks by family as lines, submissions as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leaderboard.data.catalog import TaskRow
from leaderboard.data.ordering import by_family, stem
from leaderboard.data.ranking import Entry
from leaderboard.data.rows import Row

NOT_RUN = "not run"
TOKENS_ONLY = "tokens only"
UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Cell:
    """One square: a ranked entry, or a word that says why there is none."""

    entry: Entry | None = None
    leads: bool = False
    label: str = NOT_RUN
    reason: str = ""
    rivals: int = 0
    """In a defense's square: how many rows the entry was the strongest of."""

    @property
    def cut(self) -> int:
        """Snapshots whose search the time limit cut."""
        return self.entry.row.cut if self.entry else 0

    @property
    def tried(self) -> bool:
        """There was an attempt: what was not run, or cannot be, says nothing of the column."""
        return self.entry is not None or self.label not in (NOT_RUN, TOKENS_ONLY, UNSUPPORTED)


@dataclass(frozen=True)
class Head:
    """A column: one attack (with its seed) or one defense."""

    row: Row
    """Any row of the column; it carries names and parameters."""
    says_seed: bool = False
    """The attack has columns of several seeds, so each must tell which it is."""
    reference: bool = False
    """A baseline attack, or no defense at all: what the others are compared with."""


@dataclass(frozen=True)
class Line:
    """One task across the columns."""

    task: TaskRow
    cells: tuple[Cell, ...]
    note: str
    """What the task is; empty where the line differs from the one above in batch size only."""


@dataclass(frozen=True)
class Mean:
    """A column's mean over those of several tasks that it was tried on."""

    value: float | None
    """None where the column has no number; a failed attempt counts as `missing`."""
    measured: int
    tried: int
    tasks: int
    """The tasks on which any column has a number."""
    leads: int


@dataclass(frozen=True)
class Group:
    """The tasks of one family."""

    family: str
    lines: tuple[Line, ...]
    means: tuple[Mean, ...]


@dataclass(frozen=True)
class Matrix:
    """Tasks of a suite as lines, attacks or defenses as columns, one metric."""

    metric: str
    heads: tuple[Head, ...]
    groups: tuple[Group, ...]
    means: tuple[Mean, ...]
    missing: float
    """What a failed attempt counts as."""
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


Column = tuple[Head, Mapping[str, Cell]]
"""A head with its cells by the name of the task."""


def make_matrix(
    metric: str,
    tasks: Sequence[TaskRow],
    columns: Sequence[Column],
    missing: float,
    token_sets: tuple[str, ...] = (),
) -> Matrix:
    """Lines, groups and means of columns that are in order already.

    Tasks on which only columns that everything is measured against were run have no line, unless
    that is all there is.
    """
    contested = {
        name
        for head, cells in columns
        for name, cell in cells.items()
        if not head.reference and cell.label != TOKENS_ONLY and (cell.entry or cell.reason)
    }
    shown = [task for task in tasks if task.name in contested or not contested]
    groups = tuple(_group(family, own, columns, missing) for family, own in by_family(shown))
    heads = tuple(head for head, _ in columns)
    quiet = tuple(task for task in tasks if task not in shown)
    means = _means(shown, columns, missing)
    return Matrix(metric, heads, groups, means, missing, token_sets, quiet)


def _group(
    family: str, tasks: Sequence[TaskRow], columns: Sequence[Column], missing: float
) -> Group:
    lines = tuple(
        Line(task, tuple(cells[task.name] for _, cells in columns), note)
        for task, note in zip(tasks, _notes(tasks), strict=True)
    )
    return Group(family, lines, _means(tasks, columns, missing))


def _notes(tasks: Sequence[TaskRow]) -> Iterator[str]:
    """The summary of each first variant, or what is special about its weights if that was said."""
    said = {""}
    former = ""
    for task in tasks:
        repeated = task.summary in said
        words = f"Weights: {task.checkpoint}." if task.checkpoint else ""
        yield "" if stem(task.name) == former else words if repeated else task.summary
        said.add(task.summary)
        former = stem(task.name)


def _means(tasks: Sequence[TaskRow], columns: Sequence[Column], missing: float) -> tuple[Mean, ...]:
    """Means over the tasks that anybody has a number on: the others would tell nobody apart."""
    live = [task.name for task in tasks if any(cells[task.name].entry for _, cells in columns)]
    return tuple(_mean([cells[name] for name in live], missing) for _, cells in columns)


def _mean(cells: Sequence[Cell], missing: float) -> Mean:
    measured = sum(cell.entry is not None for cell in cells)
    tried = sum(cell.tried for cell in cells)
    value = average(cells, missing) if measured else None
    return Mean(value, measured, tried, len(cells), sum(cell.leads for cell in cells))


def average(cells: Iterable[Cell], missing: float) -> float:
    """Mean of the cells that were tried, where one without a number counts as `missing`."""
    tried = (cell for cell in cells if cell.tried)
    return fmean([c.entry.value.mean if c.entry else missing for c in tried] or [missing])


@dataclass(frozen=True)
class MissingResult:
    """One reason for which an attack has no number, with all the tasks that it concerns."""

    head: Head
    label: str
    reason: str
    tasks: tuple[str, ...]


def missing_results(matrices: Iterable[Matrix]) -> tuple[MissingResult, ...]:
    """Why squares are gray, each attack and reason once."""
    heads: dict[tuple[str, int, str, str], Head] = {}
    tasks: dict[tuple[str, int, str, str], dict[str, None]] = {}
    for matrix in matrices:
        for line in matrix.lines:
            for head, cell in zip(matrix.heads, line.cells, strict=True):
                if not cell.reason or cell.label == TOKENS_ONLY:
                    continue
                key = (head.row.attack, head.row.seed, cell.label, cell.reason)
                heads.setdefault(key, head)
                tasks.setdefault(key, {})[line.task.name] = None
    return tuple(
        MissingResult(heads[key], key[2], key[3], tuple(tasks[key])) for key in sorted(heads)
    )
