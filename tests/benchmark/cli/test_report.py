"""`docs/results.md` is what the command makes of the figures beside it, and those are records'."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmark.cli.report import document
from tests.conftest import ROOT, Command
from tests.leaderboard.samples import write_sample_results

STORED = ROOT / "docs" / "results.csv"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_no_figure_of_the_document_is_typed_by_hand() -> None:
    assert document(rows(STORED)) == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert len(rows(STORED)) > 300


def test_the_command_writes_what_the_rankings_say(leakboard: Command, tmp_path: Path) -> None:
    write_sample_results(tmp_path / "results")
    out = tmp_path / "results.md"
    done = leakboard("report", "--results", tmp_path / "results", "--out", out)
    assert done.returncode == 0, done.stderr
    made = rows(out.with_suffix(".csv"))
    shown = leakboard("show", "--results", tmp_path / "results", "--json").stdout
    ranked = [row for row in made if row["part"] == "attacks" and row["metric"]]
    assert ranked
    assert all(row["attack"] in shown and row["task"] in shown for row in ranked)
    assert all(float(r["low"]) <= float(r["mean"]) <= float(r["high"]) for r in ranked)
    assert document(made) == out.read_text(encoding="utf-8")
    assert f"### {ranked[0]['task']}" in out.read_text(encoding="utf-8")
    assert any(row["part"] == "worst case" for row in made), "whether or not `score` was run"
