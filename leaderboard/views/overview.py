"""What the front page compares: attacks without a defense, and defenses by what they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from leaderboard.data.catalog import TaskRow
from leaderboard.data.ranking import NO_DEFENSE, Board, Ranking
from leaderboard.views.matrix import (
    NOT_RUN,
    TOKENS_ONLY,
    Cell,
    Column,
    Head,
    Matrix,
    average,
    make_matrix,
)


def attack_matrix(metric: str, tasks: Sequence[TaskRow], boards: Iterable[Board]) -> Matrix:
    """What each attack recovers where nothing defends.

    The attack that leads most tasks comes first, then the one of the highest mean over the tasks
    that it was tried on, where a failure counts as nothing recovered.
    """
    plain = {board.task: board for board in boards if board.defense == NO_DEFENSE}
    heads = {(row.attack, row.seed): row for board in plain.values() for row in board.rows}
    runs = Counter(attack for attack, _ in heads)
    columns: list[Column] = []
    left_out = set()
    for (attack, seed), row in sorted(heads.items()):
        cells = {t.name: _attack_cell(plain.get(t.name), metric, attack, seed) for t in tasks}
        said = cells.values()
        if any(cell.entry or cell.reason for cell in said if cell.label != TOKENS_ONLY):
            columns.append((Head(row, runs[attack] > 1, reference=row.baseline), cells))
        elif any(cell.label == TOKENS_ONLY for cell in said):
            left_out.add(attack)
    columns.sort(key=lambda column: _strength(list(column[1].values())), reverse=True)
    return make_matrix(metric, tasks, columns, 0.0, tuple(sorted(left_out)))


def _strength(cells: Sequence[Cell]) -> tuple[int, float]:
    return sum(cell.leads for cell in cells), average(cells, missing=0.0)


def _attack_cell(board: Board | None, metric: str, attack: str, seed: int) -> Cell:
    rows = board.rows if board else ()
    row = next((r for r in rows if (r.attack, r.seed) == (attack, seed)), None)
    if not board or not row:
        return Cell()
    ranking = _ranking(board, metric)
    for entry in ranking.entries if ranking else ():
        if entry.row is row:
            return Cell(entry, leads=bool(ranking and entry in ranking.leaders))
    if ranking and row in ranking.token_sets:
        return Cell(label=TOKENS_ONLY, reason="the attack names token types and writes no sentence")
    return Cell(label=row.status, reason=row.reason or f"its score has no {metric}")


def defense_matrix(metric: str, tasks: Sequence[TaskRow], boards: Iterable[Board]) -> Matrix:
    """What the strongest attack still recovers under each defense.

    No defense comes first, then the defense that leaves least on the tasks that it was tried on;
    where all attacks failed, that counts as a full leak, because nothing was shown.
    """
    by_place: Mapping[tuple[str, str], Board] = {(b.task, b.defense): b for b in boards}
    heads = {board.defense: board.rows[0] for board in by_place.values()}
    columns: list[Column] = [
        (
            Head(row, reference=name == NO_DEFENSE),
            {t.name: _defense_cell(by_place.get((t.name, name)), metric) for t in tasks},
        )
        for name, row in sorted(heads.items())
    ]
    columns.sort(
        key=lambda column: (
            column[0].row.defense != NO_DEFENSE,
            average(column[1].values(), missing=1.0),
        )
    )
    return make_matrix(metric, tasks, columns, 1.0)


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
