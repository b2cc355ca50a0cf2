"""`docs/results-open.md` is what the command makes of the figures beside it."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.cli import suite_report
from benchmark.cli.report import collect, document
from benchmark.cli.report_rows import Row, interval, row_figures, table_row
from benchmark.plugins.registry import get_suite
from benchmark.suites import Pairing, Topic
from tests.conftest import ROOT
from tests.leaderboard.samples import (
    make_record,
    make_score,
    store,
    write_sample_results,
)

DOCUMENT = ROOT / "docs" / "results-open.md"


def test_no_figure_of_the_document_is_typed_by_hand() -> None:
    with DOCUMENT.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert document(rows, "open") == DOCUMENT.read_text(encoding="utf-8")


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """The sample results with a topic, and a plan of which one cell is missing."""
    write_sample_results(tmp_path)
    mini = get_suite("mini")
    attacks = [r for r in collect(tmp_path) if r["part"] == "attacks" and r["defense"] == "none"]
    task, attack = attacks[0]["task"].partition("/")[2], attacks[0]["attack"]
    topic = Topic("One question", ("rouge1",), ((task, attack), (task, "never_run")), "A remark.")
    plan = (Pairing(task, attack), Pairing(task, "never_run"))
    suite = replace(mini, topics=(topic,), plan=plan, utility=(Pairing("cola", defense="mask"),))
    return [*collect(tmp_path), *suite_report.collect(tmp_path, suite)]


def test_a_topic_is_a_table_and_what_is_missing_is_told(rows: list[Row]) -> None:
    text = "\n".join(suite_report.sections(rows, "mini"))
    assert "## One question\n\nA remark." in text
    topic = [row for row in rows if row["part"] == "topic"]
    assert [bool(row["mean"]) for row in topic] == [True, False]
    assert f"| {topic[0]['mean']} [{topic[0]['low']}, {topic[0]['high']}] |" in text
    missing = [row for row in rows if row["part"] == "missing"]
    found = [(row["attack"], row["defense"], row["remark"]) for row in missing]
    assert found == [
        ("never_run", "none", "not run"), (suite_report.TRAINING, "mask", "not run")
    ]  # fmt: skip


def test_a_training_of_a_variant_in_batch_size_counts_for_all() -> None:
    suite = replace(get_suite("mini"), plan=(), utility=(Pairing("cola-b4", defense="prune"),))
    assert [*suite_report._missing(suite, {}, {("mini/cola", "prune")})] == []
    (row,) = suite_report._missing(suite, {}, {("mini/cola", "mask")})
    assert (row["task"], row["defense"]) == ("mini/cola", "prune")


def test_a_topic_takes_the_snapshots_of_all_seeds_together(tmp_path: Path) -> None:
    for seed, values in ((0, [0.0, 0.2]), (1, [0.4, 1.0])):
        score = make_score({"rouge1": values})
        store(tmp_path, make_record("mini/cola", "lamp", seed=seed), score)
    topic = Topic("One question", ("rouge1",), (("cola", "lamp"),))
    found = list(suite_report.collect(tmp_path, replace(get_suite("mini"), topics=(topic,))))
    row = next(row for row in found if row["part"] == "topic")
    assert (row["mean"], row["n"], row["seed"]) == ("0.4", "4", "0 1")
    assert next(row for row in found if row["part"] == "time")["n"] == "2"


def test_tasks_that_train_alike_share_a_utility() -> None:
    worst, mcc = row_figures(1, 0.9, 1, 32), row_figures(0.5, 0.4, 0.6, 3)
    rows = [
        table_row("worst case", "mini/cola-b4", "prune", metric="rougeL", attack="dager", **worst),
        table_row("utility", "mini/cola", "prune", metric="mcc", **mcc),
    ]
    assert "mcc 0.5 [0.4, 0.6]" in "\n".join(suite_report.sections(rows, "mini"))


def test_worst_cases_are_listed_where_there_is_a_defense() -> None:
    def worst(task: str, defense: str, seed: str) -> Row:
        figures = row_figures(1, 0.9, 1, 32)
        return table_row(
            "worst case", task, defense, metric="rougeL", attack="dager", seed=seed, **figures
        )

    rows = [
        worst("mini/cola", "none", "100"),
        worst("mini/cola", "prune", "100"),
        worst("mini/cola", "none", "101"),
        worst("mini/sst2", "none", "100"),
    ]
    text = "\n".join(suite_report.sections(rows, "mini"))
    assert [line.split(" | ")[:3] for line in text.splitlines() if "dager" in line] == [
        ["| mini/cola", "none", "100"],
        ["| mini/cola", "prune", "100"],
    ]


def test_a_single_figure_has_no_interval() -> None:
    row = table_row("utility", "mini/cola", "none", metric="mcc", **row_figures(0.5, 0.5, 0.5, 1))
    assert interval(row) == "0.5 (n = 1)"


def test_a_suite_without_topics_adds_nothing(tmp_path: Path) -> None:
    assert list(suite_report.collect(tmp_path, get_suite("mini"))) == []
