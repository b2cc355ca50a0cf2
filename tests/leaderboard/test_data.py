"""The data that goes with the pages: one tidy table in several forms, and the figures."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from leaderboard import load_results
from leaderboard.data.export import csv_bytes, parquet_bytes, results_table
from leaderboard.data.rows import load
from leaderboard.data.tidy import COLUMNS
from leaderboard.figures.charts import depth, heat_map
from leaderboard.figures.draw import clean, to_csv
from leaderboard.views.board import Leaderboard
from leaderboard.views.heat import heat_maps
from tests.conftest import Command
from tests.leaderboard.samples import (
    HOSTILE,
    make_record,
    make_score,
    sample_catalogue,
    store,
)

pyarrow = pytest.importorskip("pyarrow")


def test_every_form_holds_the_same_table(sample_results: Path, sample_site: Path) -> None:
    table = results_table(sample_results, sample_catalogue())
    written = list(csv.DictReader(io.StringIO((sample_site / "data" / "results.csv").read_text())))
    stored = pyarrow.parquet.read_table(sample_site / "data" / "results.parquet")
    assert table.column_names == [column.name for column in COLUMNS] == list(written[0])
    assert stored.equals(table)
    assert len(written) == table.num_rows
    assert [row["metric"] for row in written] == [m or "" for m in table["metric"].to_pylist()]
    assert csv_bytes(table) == csv_bytes(table)
    assert parquet_bytes(table) == parquet_bytes(table)


def test_a_cell_has_a_row_for_each_metric(tmp_path: Path) -> None:
    store(tmp_path, make_record(told=["labels"]), make_score({"rougeL": [0.5, 1.0]}))
    store(tmp_path, make_record(attack="slow"))
    frame = load_results(tmp_path)
    scored, unscored = frame.to_dict("records")
    assert (scored["metric"], scored["mean"], scored["n"]) == ("rougeL", 0.75, 2)
    assert (scored["told"], scored["rank"], scored["kind"]) == ("labels", 1, "recovery")
    assert unscored["status"] == "not scored yet"


def test_text_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    store(tmp_path, make_record(attack="=1+1"), make_score())
    text = csv_bytes(results_table(tmp_path, sample_catalogue())).decode()
    assert '"=1+1"' not in text
    assert '"\'=1+1"' in text
    assert to_csv([{"a": "@x"}]) == "a\n'@x\n"


def test_figures_are_clean_and_the_same_every_time(sample_results: Path) -> None:
    board = Leaderboard(load(sample_results), sample_catalogue())
    each = heat_maps(board.tasks, board.boards)[0]
    first = heat_map(each, "first")
    assert first.svg == heat_map(each, "first").svg
    assert 'role="img"' in first.svg
    assert first.csv.count("\n") == len(each.cells) + 1


def test_nothing_that_runs_or_loads_is_left_in_a_drawing() -> None:
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'onload="x()"><script>x()</script><style>*{}</style><image href="http://x"/>'
        '<clipPath id="c7"/><g clip-path="url(#c7)" style="x" role="y"><a xlink:href="z">t</a>'
        f"<text>{HOSTILE.replace('<', '&lt;')}</text></g></svg>"
    )
    made = clean(drawing, "name", HOSTILE)
    for word in ("onload", "<script", "<style", "image", "href", 'role="y"', "c7"):
        assert word not in made
    assert 'clip-path="url(#name-0)"' in made
    assert "&lt;script&gt;" in made


def test_no_square_is_of_a_depth_at_which_no_text_is_readable() -> None:
    depths = [depth(step / 100) for step in range(101)]
    assert depths == sorted(depths)
    assert not any(0.7 < value < 0.8 for value in depths)
    assert depth(None) == 0.0


def test_the_command_exports_every_form(
    leakboard: Command, sample_results: Path, tmp_path: Path
) -> None:
    folder = ("--results", str(sample_results))
    table = leakboard("export", "--csv", *folder)
    assert table.stdout.startswith('"suite","task"')
    written = leakboard("export", "--parquet", *folder, "--out", str(tmp_path / "x.parquet"))
    assert written.returncode == 0
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").num_rows > 100
    latex = leakboard("export", "--latex", *folder).stdout
    assert r"\begin{tabular}" in latex
    assert r"bag\_of\_words" in latex
    for wrong in ((), ("--csv", "--latex"), ("--parquet",)):
        assert leakboard("export", *wrong, *folder).returncode == 2
