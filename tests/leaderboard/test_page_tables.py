"""The tables of tasks, submissions and cells as files beside their pages."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmark.metrics.table import METRICS
from leaderboard.data.rows import load
from leaderboard.render.slugs import cell_page
from leaderboard.views.cells import cell_view

DOWNLOAD = re.compile(r'href="([^"]+\.csv)" download')


def rows_of(file: Path) -> list[dict[str, str]]:
    """A CSV file, row by row."""
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    "page",
    [
        "tasks/mini.cola-b1.html",
        "submissions/attack-dager.html",
        "submissions/defense-none.html",
        cell_page(("mini/cola-b1", 1, "none", "dager", 0)),
        "matrix/mini.html",
        "metrics.html",
        "papers.html",
    ],
)
def test_pages_link_their_tables(sample_site: Path, page: str) -> None:
    file = sample_site / page
    linked = DOWNLOAD.findall(file.read_text("utf-8"))
    assert linked
    for link in linked:
        assert rows_of(file.parent / link), link


def test_a_tasks_table_has_every_score_of_its_cells(
    sample_results: Path, sample_site: Path
) -> None:
    rows = rows_of(sample_site / "data" / "tasks" / "mini.cola-b1.csv")
    found = {(r["attack"], r["defense"], r["seed"], r["metric"]): r["mean"] for r in rows}
    own = [row for row in load(sample_results) if row.task == "mini/cola-b1"]
    assert {row.attack for row in own} == {row["attack"].removeprefix("'") for row in rows}
    (cell,) = [row for row in own if (row.attack, row.defense, row.seed) == ("dager", "none", 0)]
    assert cell.score is not None
    mean = found["dager", "none", "0", "rougeL"]
    assert float(mean) == cell.score.metrics["rougeL"].mean
    origins = {r["fingerprint"] for r in rows if (r["attack"], r["defense"]) == ("dager", "none")}
    assert cell.record.provenance.fingerprint in origins


def test_a_snapshots_scores_are_those_of_the_cells_page(
    sample_results: Path, sample_site: Path
) -> None:
    rows = rows_of(sample_site / "data" / "tasks" / "mini.cola-b1-snapshots.csv")
    names = ("mini/cola-b1", 1, "none", "dager", 0)
    (cell,) = [row for row in load(sample_results) if row.key == names]
    view = cell_view(cell)
    own = [r for r in rows if (r["defense"], r["attack"], r["seed"]) == ("none", "dager", "0")]
    place = view.metrics.index("rougeL")
    assert [float(row["rougeL"]) for row in own] == [each.scores[place] for each in view.snapshots]


def test_a_submissions_table_names_its_failures(sample_results: Path, sample_site: Path) -> None:
    rows = rows_of(sample_site / "data" / "submissions" / "defense-none.csv")
    known = {(row.task, row.attack) for row in load(sample_results) if row.defense == "none"}
    assert {(row["task"], row["attack"].removeprefix("'")) for row in rows} == known
    assert any(row["reason"] and not row["mean"] for row in rows)


def test_a_matrix_as_a_table_has_its_numbers_and_reasons(
    sample_results: Path, sample_site: Path
) -> None:
    rows = rows_of(sample_site / "data" / "mini-attacks-by-task-rougel.csv")
    known = {row.key: row for row in load(sample_results)}
    own = [row for row in rows if (row["task"], row["attack"]) == ("mini/cola-b1", "dager")]
    assert own
    for row in own:
        cell = known["mini/cola-b1", 1, "none", "dager", int(row["seed"])]
        assert cell.score is not None
        assert float(row["mean"]) == cell.score.metrics["rougeL"].mean
    silent = [row for row in rows if not row["mean"]]
    assert silent
    assert all(row["status"] and row["reason"] for row in silent)
    missing = rows_of(sample_site / "data" / "mini-missing.csv")
    assert all(row["reason"] and row["tasks"] for row in missing)


def test_the_table_of_metrics_has_them_all(sample_site: Path) -> None:
    rows = rows_of(sample_site / "data" / "metrics.csv")
    assert [row["metric"] for row in rows] == list(METRICS)
    assert all(row["meaning"] for row in rows)
