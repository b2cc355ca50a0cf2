"""The page on timing: ratios of the newest run, and their history over several files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from benchmark.errors import UserError
from leaderboard.data.catalog import Catalog
from leaderboard.render.pages import render_pages
from leaderboard.views.board import Leaderboard
from leaderboard.views.timing import MOST_RUNS, load_timings

STATISTICS = {"min": 0.1, "median": 0.2, "mean": 0.2, "stddev": 0.01, "rounds": 3}


def write_run(file: Path, day: int, **ratios: float | None) -> Path:
    """A file as pytest-benchmark writes it: one benchmark for each ratio."""
    tests = [
        {
            "name": f"test_{name}",
            "fullname": f"tests/timing/test_x.py::test_{name}",
            "stats": STATISTICS,
            "extra_info": {} if ratio is None else {"ratio": ratio},
        }
        for name, ratio in ratios.items()
    ]
    whole = {
        "benchmarks": tests,
        "machine_info": {"system": "Linux", "cpu": {"brand_raw": "A processor"}},
        "commit_info": {"id": f"{day:040d}", "dirty": False},
        "datetime": f"2026-01-{day:02d}T00:00:00+00:00",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole))
    return file


def pages_of(*paths: Path) -> dict[str, str]:
    """The pages of a site with these timings and nothing else."""
    return render_pages(Leaderboard((), Catalog()), timing=load_timings(paths))


def table_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(text)))


def test_the_page_shows_the_newest_run_and_the_history(tmp_path: Path) -> None:
    late = write_run(tmp_path / "a.json", 9, films=4.0, search=30.0)
    early = write_run(tmp_path / "b.json", 3, films=2.5, plain=None)
    pages = pages_of(late, early)
    newest, _, history = pages["timing.html"].partition("History")
    assert "Timed on 2026-01-09" in newest
    assert "× 4.000" in newest
    assert "× 2.500" not in newest
    assert history.index("2026-01-03") < history.index("2026-01-09")
    assert "× 2.500" in history
    assert ">plain<" not in history  # no ratio in any run
    rows = table_of(pages["data/timing.csv"])
    assert [(row["datetime"][8:10], row["ratio"]) for row in rows] == [
        *(("03", "2.5"), ("03", ""), ("09", "4.0"), ("09", "30.0"))
    ]
    drawn = table_of(pages["figures/timing-ratios.csv"])
    assert [(row["test"], row["run"]) for row in drawn] == [
        *(("films", "1"), ("films", "2"), ("search", "2"))
    ]
    assert "<path" in pages["figures/timing-ratios.svg"]


def test_one_run_has_no_history(tmp_path: Path) -> None:
    pages = pages_of(write_run(tmp_path / "a.json", 1, films=2.0))
    assert "History" not in pages["timing.html"]
    assert "figures/timing-ratios.svg" not in pages


def test_a_folder_stands_for_its_files_and_a_run_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "timing.json", 2, films=2.0)
    saved = write_run(tmp_path / "Linux" / "0002.json", 2, films=2.0)
    saved.write_text(saved.read_text().replace("T00:00:00", "T00:00:01"))  # as it was written
    write_run(tmp_path / "Linux" / "0001.json", 1, films=1.5)
    history = load_timings([tmp_path])
    assert history is not None
    assert [run.day for run in history.runs] == ["2026-01-01", "2026-01-02"]


def test_the_table_has_the_last_runs_and_the_file_all(tmp_path: Path) -> None:
    files = [write_run(tmp_path / f"{day}.json", day, films=float(day)) for day in range(1, 13)]
    history = load_timings(files)
    assert history is not None
    (films,) = history.ratios()
    assert films.ratios == tuple(float(day) for day in range(13 - MOST_RUNS, 13))
    assert pages_of(*files)["data/timing.csv"].count("films") == 12


def test_what_is_no_timing_is_refused(tmp_path: Path) -> None:
    assert load_timings([]) is None
    with pytest.raises(UserError, match="holds no JSON file"):
        load_timings([tmp_path])
    with pytest.raises(UserError, match="Cannot read"):
        load_timings([tmp_path / "none.json"])
    (tmp_path / "odd.json").write_text("[]")
    with pytest.raises(UserError, match="not a JSON file of pytest-benchmark"):
        load_timings([tmp_path])
