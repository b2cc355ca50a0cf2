"""The matrices on the front page: attacks by tasks without a defense, and defenses by tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leaderboard.ranking import NO_DEFENSE, Board, Entry, Ranking
from leaderboard.rows import Row

NOT_RUN = "not run"
TOKENS_ONLY = "tokens only"


@dataclass(frozen=True)
class Cell:
    """One square: a ranked entry, or a word that says why there is none."""

    entry: Entry | None = None
    label: str = NOT_RUN
    reason: str = ""
    rivals: int = 0
    """In a defense's square: how many rows the entry was the strongest of."""


@dataclass(frozen=True)
class Line:
    """One attack (with its seed) or one defense across the tasks of a suite."""

    row: Row
    """Any row of the line; it carries names and parameters."""
    cells: tuple[Cell, ...]
    says_seed: bool = False
    """The attack has lines of several seeds, so each must say which it is."""


@dataclass(frozen=True)
class Matrix:
    """Tasks of a suite as columns, attacks or defenses as lines, one metric."""

    metric: str
    tasks: tuple[str, ...]
    lines: tuple[Line, ...]
    token_sets: tuple[str, ...] = ()
    """Attacks left out because they write no sentences."""


def attack_matrix(metric: str, tasks: Sequence[str], boards: Iterable[Board]) -> Matrix:
    """What each attack recovers where nothing defends; the strongest over all tasks first."""
    plain = {board.task: board for board in boards if board.defense == NO_DEFENSE}
    heads = {(row.attack, row.seed): row for board in plain.values() for row in board.rows}
    runs = Counter(attack for attack, _ in heads)
    lines, left_out = [], set()
    for (attack, seed), row in sorted(heads.items()):
        cells = tuple(_attack_cell(plain.get(task), metric, attack, seed) for task in tasks)
        if any(cell.label == TOKENS_ONLY for cell in cells) and not any(c.entry for c in cells):
            left_out.add(attack)
        else:
            lines.append(Line(row, cells, says_seed=runs[attack] > 1))
    lines.sort(key=lambda line: -_mean(line.cells, missing=0.0))
    return Matrix(metric, tuple(tasks), tuple(lines), tuple(sorted(left_out)))


def _attack_cell(board: Board | None, metric: str, attack: str, seed: int) -> Cell:
    rows = board.rows if board else ()
    row = next((r for r in rows if (r.attack, r.seed) == (attack, seed)), None)
    if not board or not row:
        return Cell()
    ranking = _ranking(board, metric)
    for entry in ranking.entries if ranking else ():
        if entry.row is row:
            return Cell(entry)
    if ranking and row in ranking.token_sets:
        return Cell(label=TOKENS_ONLY, reason="the attack names token types and writes no sentence")
    return Cell(label=row.status, reason=row.reason or f"its score has no {metric}")


def defense_matrix(metric: str, tasks: Sequence[str], boards: Iterable[Board]) -> Matrix:
    """What the strongest attack still recovers under each defense.

    No defense comes first, then the defense that leaves least; a task on which a defense was not
    measured counts as a full leak, because nothing was shown.
    """
    by_place: Mapping[tuple[str, str], Board] = {(b.task, b.defense): b for b in boards}
    heads = {board.defense: board.rows[0] for board in by_place.values()}
    lines = [
        Line(row, tuple(_defense_cell(by_place.get((task, name)), metric) for task in tasks))
        for name, row in sorted(heads.items())
    ]
    lines.sort(key=lambda line: (line.row.defense != NO_DEFENSE, _mean(line.cells, missing=1.0)))
    return Matrix(metric, tuple(tasks), tuple(lines))


def _defense_cell(board: Board | None, metric: str) -> Cell:
    if not board:
        return Cell()
    ranking = _ranking(board, metric)
    if not ranking:
        first = next(iter(board.unranked), None)
        return Cell(label=first.status if first else NOT_RUN, reason=first.reason if first else "")
    strongest = max(ranking.entries, key=lambda entry: entry.value.mean)
    return Cell(strongest, rivals=len(ranking.entries))


def _ranking(board: Board, metric: str) -> Ranking | None:
    return next((r for r in board.rankings if r.metric == metric), None)


def _mean(cells: Sequence[Cell], missing: float) -> float:
    return fmean([c.entry.value.mean if c.entry else missing for c in cells] or [missing])


def silent_cells(matrices: Iterable[Matrix]) -> tuple[tuple[str, Line, Cell], ...]:
    """Every square without a number that has a reason, as (task, line, cell), once each."""
    found = {
        (task, line.row.attack, line.row.seed): (task, line, cell)
        for matrix in matrices
        for line in matrix.lines
        for task, cell in zip(matrix.tasks, line.cells, strict=True)
        if cell.reason and cell.label != TOKENS_ONLY
    }
    return tuple(found[key] for key in sorted(found))
