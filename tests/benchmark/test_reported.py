"""The papers' tables: typed, and each row names cells that exist."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmark import reported, scores
from benchmark.errors import UserError
from benchmark.registry import Catalogue
from benchmark.reported import Row, Table
from tests.conftest import Command
from tests.harness import RunCells

Catalogues = tuple[Catalogue, Catalogue]
ABSENT = {"no such model here"}


@pytest.mark.parametrize("name", reported.names())
def test_every_row_of_a_table_has_its_cells(
    name: str, catalogues: Catalogues, tmp_path: Path
) -> None:
    table = reported.load(name)
    assert table.table.startswith("Table ")
    works = reported.plan(table, "mini", *catalogues, tmp_path)
    for work in works:
        assert work.cell or work.trials or work.note in ABSENT, f"{work.row.label}: {work.note}"
        assert not work.note or work.note in ABSENT
    utilities = {"perplexity", "mcc"} & set(table.metrics)
    assert any(work.trials for work in works) == bool(utilities)


def test_figures_are_the_papers_in_our_units() -> None:
    pruning, noise = reported.load("film-pruning"), reported.load("lamp-noise")
    last = pruning.rows[-1]
    assert (last.defense, pruning.figure(last, "type_recall")) == ("prune[ratio=0.9999]", 0.9)
    row = next(r for r in noise.rows if r.attack == "lamp_cos_quick" and "0.01" in r.defense)
    assert noise.figure(row, "rougeL") == pytest.approx(0.276)
    assert noise.figure(row, "mcc") is None
    with pytest.raises(UserError, match="did you mean film-pruning"):
        reported.load("film-prunning")


def test_ours_stands_beside_theirs(
    run_cells: RunCells, catalogues: Catalogues, tmp_path: Path
) -> None:
    table = Table(
        paper="A paper", table="Table 1", title="Floors", setting="", percent=["rouge1"],
        rows=[
            Row(label="guessing", reported={"rouge1": 5.0}, task="cola", attack="random"),
            Row(label="nobody", reported={"rouge1": 7.0}, task="cola", attack="nobody"),
        ],
    )  # fmt: skip
    run_cells("random", task="mini/cola", results=tmp_path)
    works = reported.plan(table, "mini", *catalogues, tmp_path)
    list(scores.score_all(tmp_path))
    first, second = reported.compare(table, works, tmp_path)
    assert first.reported == {"rouge1": pytest.approx(0.05)}
    assert 0 < first.ours["rouge1"].mean < 0.5
    assert "no attack called 'nobody'" in second.note
    reported.write_csv(tmp_path / "out.csv", table, [first, second])
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["row"] for row in rows] == ["guessing", "nobody"]
    assert float(rows[0]["ours"]) == first.ours["rouge1"].mean
    assert rows[1]["ours"] == ""


def test_the_command_lists_the_tables_and_refuses_what_makes_no_sense(leakboard: Command) -> None:
    listed = leakboard("table")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in reported.names())
    refused = leakboard("run", "--utility", "--attack", "random")
    assert refused.returncode == 2
    assert refused.stderr.startswith("leakboard: --utility trains without an attack")
