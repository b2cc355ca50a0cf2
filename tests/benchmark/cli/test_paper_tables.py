"""The papers' tables: typed, and each row names cells that exist."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from benchmark.cli import paper_tables
from benchmark.cli.table import comparison_lines
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks
from benchmark.plugins.selection import choose
from benchmark.results import reported, scoring
from benchmark.results.reported import Row, Table
from tests.benchmark.runs.federated_setup import run_trials, small_task, small_trial
from tests.conftest import Command
from tests.harness import RunCells

Catalogues = tuple[Catalog, Catalog]
ABSENT = {"no such model here"}
PAPER_ONLY = {"fede-vocab-bert"}
"""Tables of a model that no suite has."""


TABLES = {name: reported.load(name) for name in reported.names()}
REAL = sorted(name for name, table in TABLES.items() if table.suite)
"""Tables beside our figures from real weights, which need not be installed."""


@pytest.mark.parametrize("name", REAL)
def test_rows_from_real_weights_name_what_exists(name: str, catalogs: Catalogues) -> None:
    table, tasks = TABLES[name], all_tasks()
    for row in table.rows:
        assert f"{table.suite}/{row.task}" in tasks
        assert choose(catalogs[0], "attack", row.attack)[0].name == row.attack


@pytest.mark.parametrize("name", sorted({*TABLES} - {*REAL}))
def test_every_row_of_a_table_has_its_cells(
    name: str, catalogs: Catalogues, tmp_path: Path
) -> None:
    table = TABLES[name]
    assert table.table.startswith(("Table ", "Figure "))
    works = paper_tables.plan(table, "mini", *catalogs, tmp_path)
    for work in works:
        assert work.cell or work.trials or work.note in ABSENT, f"{work.row.label}: {work.note}"
        assert not work.note or work.note in ABSENT
    lines = paper_tables.compare(table, works, tmp_path)
    assert {line.note for line in lines} <= {paper_tables.NOT_RUN, *ABSENT}
    assert all(len(line) <= 80 for line in comparison_lines(table, lines))
    utilities = {"perplexity", "mcc", "accuracy_global"} & set(table.metrics)
    assert any(work.trials for work in works) == (bool(utilities) and name not in PAPER_ONLY)


def test_figures_are_the_papers_in_our_units() -> None:
    pruning, noise = reported.load("film-pruning"), reported.load("lamp-noise")
    last = pruning.rows[-1]
    assert (last.defense, pruning.figure(last, "type_recall")) == ("prune[ratio=0.9999]", 0.9)
    row = next(r for r in noise.rows if r.attack == "lamp_cos_quick" and "0.01" in r.defense)
    assert noise.figure(row, "rougeL") == pytest.approx(0.276)
    assert noise.figure(row, "mcc") is None
    with pytest.raises(UserError, match="did you mean film-pruning"):
        reported.load("film-prunning")


def test_papers_that_count_special_tokens_say_so_and_have_our_value_on_their_scale() -> None:
    counting = {name for name, table in TABLES.items() if table.counts_specials}
    assert counting == {name for name in TABLES if name.startswith("lamp-")}
    for name in counting:
        assert "[CLS]" in TABLES[name].remark
    main = TABLES["lamp-main"]
    assert main.shown == ["rouge1", "rouge1_with_specials", "rouge2", "rougeL"]
    assert main.figure(main.rows[0], "rouge1_with_specials") == pytest.approx(0.593)
    assert TABLES["film-pruning"].shown == TABLES["film-pruning"].metrics


def test_ours_stands_beside_theirs(
    run_cells: RunCells, catalogs: Catalogues, tmp_path: Path
) -> None:
    table = Table(
        paper="A paper", table="Table 1", title="Floors", setting="", percent=["rouge1"],
        counts_specials=True, remark="It counts [CLS].",
        rows=[
            Row(label="guessing", reported={"rouge1": 5.0}, task="cola", attack="random"),
            Row(label="nobody", reported={"rouge1": 7.0}, task="cola", attack="nobody"),
        ],
    )  # fmt: skip
    run_cells("random", task="mini/cola", results=tmp_path)
    works = paper_tables.plan(table, "mini", *catalogs, tmp_path)
    list(scoring.score_all(tmp_path))
    first, second = paper_tables.compare(table, works, tmp_path)
    assert list(first.reported.values()) == pytest.approx([0.05, 0.05])
    assert 0 < first.ours["rouge1"].mean < first.ours["rouge1_with_specials"].mean < 0.6
    assert "no attack called 'nobody'" in second.note
    rows = paper_tables.flat(table, [first, second])
    assert [row["row"] for row in rows] == ["guessing", "guessing", "nobody", "nobody"]
    assert [row["metric"] for row in rows[:2]] == ["rouge1", "rouge1_with_specials"]
    assert rows[0]["ours"] == first.ours["rouge1"].mean
    assert rows[2]["ours"] is None
    lines = list(comparison_lines(table, [first, second]))
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].strip() == "It counts [CLS]."
    assert lines[4].split()[:4] == ["guessing", "rouge1", "0.05", f"{rows[0]['ours']:.3f}"]


def test_federated_trainings_and_attacks_stand_beside_the_papers(
    engine: LocalEngine, run_cells: RunCells, catalogs: Catalogues, tmp_path: Path
) -> None:
    """On the small federation of the other tests, whose records are real but short."""
    names = ("fedavg", "fede_vocab", "fede_vocab_no_adapt")
    run_trials(engine, [small_trial(small_task(), catalogs[1], name, tmp_path) for name in names])
    run_cells("bag_of_words", "mini/agnews-fl-b1", "fede_vocab", results=tmp_path)
    list(scoring.score_all(tmp_path))
    ours = {}
    for name in ("bilstm", "adaptive", "figure-4", "figure-5", "private-tokens"):
        table = reported.load(f"fede-vocab-{name}")
        works = paper_tables.plan(table, "mini", *catalogs, tmp_path)
        for line in paper_tables.compare(table, works, tmp_path):
            if line.ours:
                ours[name, line.label] = line
    accuracy = ours["bilstm", "AG News, FedAvg"]
    assert accuracy.reported["accuracy_local"] == pytest.approx(0.916)
    assert 0 < accuracy.ours["accuracy_local"].mean <= 1
    assert ("bilstm", "AG News, FedProx") not in ours
    assert {name for name, _ in ours} == {
        "bilstm", "adaptive", "figure-4", "figure-5", "private-tokens",
    }  # fmt: skip
    traffic = {m: ours["figure-4", f"BiLSTM, {m}"].ours for m in ("FedAvg", "FedeVocab")}
    assert traffic["FedeVocab"]["bytes_down"].mean < traffic["FedAvg"]["bytes_down"].mean
    leaked = ours["private-tokens", "BiLSTM, FedeVocab, bag_of_words"].ours["ptlr"]
    assert leaked.mean < 0.1


def test_the_command_lists_the_tables_and_refuses_what_makes_no_sense(leakboard: Command) -> None:
    listed = leakboard("table")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == reported.names()
    written = leakboard("table", "--csv").stdout
    assert [row["name"] for row in csv.DictReader(io.StringIO(written))] == reported.names()
    shown = leakboard("table", "fede-vocab-bert", "--rows", "AG News*", "--seed", "100")
    assert shown.returncode == 0
    assert "AG News, FedeVocab" in shown.stdout
    refused = leakboard("table", "fede-vocab-bert", "--rows", "Reuters*")
    assert refused.returncode == 2
    assert "No row of Table 6 is called 'Reuters*'" in refused.stderr
    refused = leakboard("run", "--utility", "--attack", "random")
    assert refused.returncode == 2
    assert refused.stderr.startswith("leakboard: --utility trains without an attack")
    refused = leakboard("run", "--utility", "--with-utility")
    assert refused.returncode == 2
    assert refused.stderr.startswith("leakboard: --utility is training alone")
