"""No board, line or plot holds a figure that comes from other snapshots than its neighbors'."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmark.results.schema import Record, Status
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import Catalog, SuiteRow, TaskRow
from leaderboard.data.rows import Row
from leaderboard.views.board import Leaderboard
from tests.leaderboard.samples import make_record, make_score, make_value

TASKS = [f"s/{name}" for name in ("a", "b", "c")]
ATTACKS = ("random", "tag", "lamp", "dager")
DEFENSES = ("none", "prune", "mask")


def moved(record: Record, digest: str, year: int) -> Record:
    """The same cell on other snapshots."""
    snapshots = [s.model_copy(update={"digest": digest * 64}) for s in record.snapshots]
    created = record.provenance.created.replace(year=year)
    origin = record.provenance.model_copy(update={"created": created})
    return record.model_copy(update={"snapshots": snapshots, "provenance": origin})


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    """A heap of results in which every cell exists of one of several seeds, versions, snapshots."""
    source = random.Random(5)
    rows = []
    for task in TASKS:
        for defense in DEFENSES:
            for attack in ATTACKS:
                version, seed = source.choice((1, 2, 2)), source.choice((0, 0, 100))
                made = make_record(task, attack, defense, seed=seed, version=version)
                digest, year = source.choice((("5", 2025), ("6", 2026), ("6", 2026)))
                level = source.random()
                score = make_score({m: [level] * 8 for m in ("rougeL", "type_f1")})
                text = source.choice(("old", "new", "new"))
                score = score.model_copy(update={"truths": text})
                baseline = attack == "random"
                rows.append(Row(moved(made, digest, year), score, baseline=baseline))
    rows.append(Row(make_record("s/a", "film", status=Status.UNSUPPORTED, reason="no", version=2)))
    blank = TaskRow("", "classification", "", 2, utility=("mcc",), trained_batch=16)
    listed = [replace(blank, name=name, trained_as=name, panel=ATTACKS[:1]) for name in TASKS]
    costs = {
        (name, d): UtilityCost(name, d, {"mcc": make_value([0.5])}, None, Status.OK, "", (0,))
        for name in TASKS
        for d in DEFENSES
    }
    return Leaderboard(tuple(rows), Catalog((SuiteRow("s", ""),), tuple(listed)), costs)


def test_a_board_is_of_one_set_of_snapshots(board: Leaderboard) -> None:
    assert len(board.boards) > 12
    assert sorted(row.key for each in board.boards for row in each.rows) == sorted(
        row.key for row in board.rows
    ), "nothing disappears"
    for each in board.boards:
        attacked = [row.record for row in each.rows if row.record.snapshots]
        places = {(r.task, r.task_version, r.defense_name, r.seed) for r in attacked}
        assert places <= {(each.task, each.version, each.defense, each.seed)}
        assert len({record.snapshot_set for record in attacked}) <= 1


def test_a_line_of_attacks_is_of_one_board(board: Leaderboard) -> None:
    (view,) = board.suites
    lines = [line for matrix in view.attacks for line in matrix.lines]
    assert any(line.says_seed for line in lines)
    for line in lines:
        records = [cell.entry.row.record for cell in line.cells if cell.entry]
        assert {r.seed for r in records} <= {line.seed}
        assert {r.task_version for r in records} <= {2}
        assert len({r.snapshot_set for r in records}) <= 1


def test_a_line_of_defenses_is_of_the_same_private_text(board: Leaderboard) -> None:
    (view,) = board.suites
    lines = [line for matrix in view.defenses for line in matrix.lines]
    labels = {cell.label for line in lines for cell in line.cells if not cell.entry}
    assert "other text" in labels
    for line in lines:
        rows = [cell.entry.row for cell in line.cells if cell.entry]
        assert {row.seed for row in rows} <= {line.seed}
        assert len({row.score.truths for row in rows if row.score}) <= 1


def test_a_panel_of_attacks_is_of_one_seed(board: Leaderboard) -> None:
    (view,) = board.suites
    assert view.panels
    for panel in view.panels:
        assert len({seed for _, seed in panel.lines}) == 1


def test_a_trade_off_is_of_one_seed(board: Leaderboard) -> None:
    drawn = [each for task in board.tasks for each in board.trade_offs_of(task)]
    assert drawn
    ranked = {(b.task, b.seed, b.metric): b for b in board.defense_boards}
    for each in drawn:
        source = ranked[each.task.name, each.seed, each.leak_metric]
        assert {point.defense for point in each.points} <= {e.defense for e in source.entries}
        assert len({entry.case.truths for entry in source.entries}) == 1
