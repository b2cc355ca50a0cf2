"""The tuning script: only tuning seeds, everything through the harness, paired comparison."""

from __future__ import annotations

import ast
import csv
import json
import random
import re
import shlex
from pathlib import Path

import pytest

from benchmark.plugins.catalog import Catalog
from submissions import tuning
from submissions.tuning import BadInput, Trial, grid_of, options_of, seeds_of, standings
from tests.conftest import ROOT


@pytest.mark.parametrize("text", ["100", "0-100", "0,250", "99-101"])
def test_seeds_of_published_figures_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tried.csv"
    arguments = ["random", "--task", "cola", "--seeds", text, "--out", str(out)]
    assert tuning.main(arguments) == 2
    assert "published figures" in capsys.readouterr().err
    assert not out.exists()


def test_seeds_and_grids_are_read() -> None:
    assert seeds_of("0-3,7") == [0, 1, 2, 3, 7]
    assert grid_of(["a=1,2", "b=x"]) == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]
    assert grid_of([]) == [{}]
    for wrong in ("a", "=1", "a=", "a=1,,2"):
        with pytest.raises(BadInput, match="not of the form"):
            grid_of([wrong])
    for wrong in ("x", "1-", ""):
        with pytest.raises(BadInput):
            seeds_of(wrong)


def trials(setting: str, values: list[float]) -> list[Trial]:
    return [Trial(setting, "t", "none", 0, n, value, 1.0) for n, value in enumerate(values)]


def test_settings_are_compared_snapshot_by_snapshot() -> None:
    """A difference that is the same everywhere is seen however much the snapshots differ."""
    draw = random.Random(0)
    hard = [draw.random() for _ in range(20)]
    better = trials("better", hard)
    worse = trials("worse", [value - 0.01 - 0.001 * draw.random() for value in hard])
    first, second = standings([*worse, *better])
    assert (first.setting, first.difference, first.snapshots) == ("better", 0.0, 20)
    assert second.setting == "worse"
    assert second.low < second.difference < second.high < 0
    assert standings([*worse, *better], lower_is_better=True)[0].setting == "worse"


def test_it_reaches_the_harness_by_its_command_only() -> None:
    tree = ast.parse((ROOT / "submissions" / "tuning.py").read_text())
    modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert not [name for name in modules if name and name.startswith(("benchmark", "tasks"))]


def test_calls_in_the_documentation_can_be_made(catalogs: tuple[Catalog, Catalog]) -> None:
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "methods.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    calls = re.findall(r"python -m submissions\.tuning ([^`\n]*--out [^`\n]*)", text)
    assert len(calls) > 5
    known = catalogs[0].names()
    for call in calls:
        options = options_of(shlex.split(call))
        seeds_of(options.seeds)
        for attack in options.attack.split(","):
            for combination in grid_of(options.grid):
                entry, _ = known[attack]
                entry.check_parameters(combination)


def test_what_was_tried_is_run_scored_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tried.csv"
    common = ["--task", "cola", "--seeds", "0", "--metric", "type_f1", "--out", str(out)]
    kept = ["--results", str(tmp_path / "results")]
    noisy = ["--defense", "gaussian_noise", "--grid", "noise_over=width,matrix"]
    assert tuning.main(["bag_of_words", *common, *noisy, *kept]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("bag_of_words[noise_over=matrix]")
    assert "best" in printed[1]
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    records = [json.loads(p.read_text()) for p in (tmp_path / "results").rglob("*.s0.json")]
    assert {row["setting"].partition("=")[2] for row in rows} == {"width]", "matrix]"}
    assert len(rows) == sum(len(record["snapshots"]) for record in records)
    assert all(record["provenance"]["sandbox"] for record in records)
