"""What the front page compares: attacks without a defense, and defenses by what they leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import DefenseBoard, DefenseEntry
from leaderboard.data.ranking import NO_DEFENSE, Board, Entry
from leaderboard.views.matrix import (
    OTHER_TEXT,
    TOKENS_ONLY,
    Cell,
    Column,
    Head,
    LineKey,
    Matrix,
    line_keys,
    make_matrix,
)
from leaderboard.views.summary import Summary, summaries


def attack_matrix(metric: str, tasks: Sequence[TaskRow], boards: Iterable[Board]) -> Matrix:
    """What each attack recovers where nothing defends.

    The attack that leads most lines comes first, then the one that beats most others on the lines
    that both were run on.
    """
    plain: dict[LineKey, Board] = {(b.task, b.seed): b for b in boards if b.defense == NO_DEFENSE}
    keys = line_keys(tasks, _seeds(plain))
    heads = {row.attack: row for board in plain.values() for row in board.rows}
    columns: list[Column] = []
    left_out = set()
    for attack, row in sorted(heads.items()):
        cells = {key: _attack_cell(plain.get(key), metric, attack) for key in keys}
        said = cells.values()
        if any(cell.entry or cell.reason for cell in said if cell.label != TOKENS_ONLY):
            columns.append((Head(row, reference=row.baseline), cells))
        elif any(cell.label == TOKENS_ONLY for cell in said):
            left_out.add(attack)
    ordered = _in_order(columns, keys, 0.0)
    return make_matrix(metric, tasks, keys, ordered, tuple(sorted(left_out)))


def _seeds(places: Iterable[tuple[str, int | None]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for task, seed in places:
        if seed is not None:
            found.setdefault(task, set()).add(seed)
    return found


def _in_order(columns: Sequence[Column], keys: Sequence[LineKey], missing: float) -> list[Column]:
    """Columns by lines led, then by how many others they beat; what everything is compared with
    has no privilege."""
    over_all = summaries(keys, [cells for _, cells in columns], missing)
    order = sorted(range(len(columns)), key=lambda place: _strength(over_all[place]), reverse=True)
    return [columns[place] for place in order]


def _strength(summary: Summary) -> tuple[int, int, int]:
    return summary.leads, summary.beaten, summary.wins


def _attack_cell(board: Board | None, metric: str, attack: str) -> Cell:
    row = board.row(attack) if board else None
    if not board or not row:
        return Cell()
    ranking = board.ranking(metric)
    for entry in ranking.entries if ranking else ():
        if entry.row is row:
            return Cell(entry, tried=True, leads=bool(ranking and entry in ranking.leaders))
    if ranking and row in ranking.token_sets:
        return Cell(label=TOKENS_ONLY, reason="the attack names token types and writes no sentence")
    reason = row.reason or f"its score has no {metric}"
    return Cell(tried=not row.ruled_out and not row.measured, label=row.status, reason=reason)


def defense_matrix(
    metric: str,
    tasks: Sequence[TaskRow],
    boards: Iterable[Board],
    ranked: Iterable[DefenseBoard],
) -> Matrix:
    """What the strongest attack still recovers under each defense.

    No defense comes first, then the defense that leads most lines, then the one that beats most
    others where both have faced the whole panel. Where all attacks failed, that counts as a full
    leak, because nothing was shown.
    """
    by_place = {(b.task, b.seed, b.defense): b for b in boards}
    by_line = {(b.task, b.seed): b for b in ranked if b.metric == metric}
    keys = line_keys(tasks, _seeds((task, seed) for task, seed, _ in by_place))
    heads = {board.defense: board.rows[0] for board in by_place.values()}
    columns: list[Column] = [
        (
            Head(row, reference=name == NO_DEFENSE),
            {key: _defense_cell(by_place, by_line, key, name, metric) for key in keys},
        )
        for name, row in sorted(heads.items())
    ]
    columns = _in_order(columns, keys, 1.0)
    columns.sort(key=lambda column: column[0].row.defense != NO_DEFENSE)
    return make_matrix(metric, tasks, keys, columns)


def _defense_cell(
    by_place: Mapping[tuple[str, int, str], Board],
    by_line: Mapping[tuple[str, int], DefenseBoard],
    key: LineKey,
    defense: str,
    metric: str,
) -> Cell:
    task, seed = key
    board = by_place.get((task, seed, defense)) if seed is not None else None
    if not board or seed is None:
        return Cell()
    line = by_line.get((task, seed))
    for entry in line.entries if line else ():
        if entry.defense == defense:
            return _entry_cell(entry, board, leads=bool(line and entry in line.leaders))
    if board.ranking(metric):
        return Cell(label=OTHER_TEXT, reason="run on other private text than the others; run again")
    first = next(iter(board.unranked), None)
    if not first:
        return Cell()
    return Cell(tried=not first.ruled_out, label=first.status, reason=first.reason)


def _entry_cell(entry: DefenseEntry, board: Board, leads: bool) -> Cell:
    strongest = entry.strongest
    row = board.row(strongest.attack)
    assert row is not None, "a worst case names a row of its board"
    shown = Entry(entry.rank, entry.shared, row, strongest.value)
    complete = entry.case.complete
    return Cell(
        shown, tried=complete, leads=leads, rivals=strongest.rivals, lacking=entry.case.missing
    )
