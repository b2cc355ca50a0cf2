"""The papers' tables beside ours: which suite stands beside which, and what comes first."""

from __future__ import annotations

from leaderboard.data.rows import Row
from leaderboard.views.papers import ComparedTable, compared_tables
from tests.leaderboard.samples import make_record, make_score


def tables(*cells: tuple[str, str]) -> list[ComparedTable]:
    """All tables, where these tasks were attacked by these attacks."""
    score = make_score({"rouge1": [0.5] * 8, "rouge2": [0.5] * 8})
    rows = tuple(Row(make_record(task, attack), score) for task, attack in cells)
    return list(compared_tables(rows, {}, ("mini", "open")))


def test_a_table_of_real_weights_takes_no_other_suite() -> None:
    for suite, measured in (("mini", 0), ("open", 1)):
        (found,) = [t for t in tables((f"{suite}/cola", "dager")) if t.name == "dager-batches"]
        assert (found.measured, found.suite) == (measured, suite if measured else "")


def test_other_tables_take_the_suite_with_most_of_their_rows() -> None:
    cells = [("open/cola", "dlg_quick"), ("mini/cola", "dlg_quick"), ("mini/cola", "tag_quick")]
    (found,) = [table for table in tables(*cells) if table.name == "lamp-main"]
    assert (found.suite, found.measured) == ("mini", 2)


def test_the_fullest_table_comes_first() -> None:
    shown = tables(("open/cola", "dager"), ("mini/cola", "dlg_quick"))
    assert [table.name for table in shown[:2]] == ["dager-batches", "lamp-main"]
    assert shown[0].share > shown[1].share > shown[2].share == 0
