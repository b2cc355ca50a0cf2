"""Records run again: the same, within the interval, different, or not comparable, in a sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark.plugins import registry
from benchmark.results.verification import read_mark
from leaderboard.render.slugs import task_page
from tests.benchmark.exchange.conftest import PLAN, Published
from tests.in_process import leakboard

COLA = Path("mini/cola/none/own_rows.s100.json")
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def results(published: Published, tmp_path: Path) -> Path:
    """The records, to be changed at will."""
    return shutil.copytree(published.results, tmp_path / "results")


def change(path: Path, how: Change) -> None:
    record = json.loads(path.read_text())
    how(record)
    path.write_text(json.dumps(record))


def forget_one_token(record: dict[str, Any]) -> None:
    record["snapshots"][0]["token_types"].pop()


def forget_everything(record: dict[str, Any]) -> None:
    for snapshot in record["snapshots"]:
        snapshot["token_types"] = []


# ---------------------------------------------------------------------------------------- verdict


def test_the_same_is_marked_and_the_board_shows_it(results: Path, tmp_path: Path) -> None:
    path = results / COLA
    done = leakboard("verify", path, "--jobs", 1)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"same: {path}"
    mark = read_mark(path)
    assert mark is not None
    assert mark.agreement == "same"
    assert mark.machine
    leakboard("score", "--results", results)
    drawn = leakboard("site", "--results", results, "--out", tmp_path / "site")
    assert drawn.code == 0, drawn.err
    page = (tmp_path / "site" / task_page("mini/cola")).read_text()
    shown = re.search(r'title="repeated on ([\d-]+) on ([^"]+)">verified<', page)
    assert shown is not None
    assert shown[1] == mark.date.strftime("%Y-%m-%d")
    change(path, forget_one_token)
    assert read_mark(path) is None  # it is of the record as it was


def test_other_answers_within_the_interval_agree(results: Path) -> None:
    path = results / COLA
    change(path, forget_one_token)
    done = leakboard("verify", path, "--jobs", 1, "--json")
    (verdict,) = json.loads(done.out)
    assert (done.code, verdict["word"]) == (0, "within interval"), verdict
    assert verdict["differences"] == ["1 of 2 snapshots have other answers"]
    mark = read_mark(path)
    assert mark is not None
    assert mark.agreement == "within interval"


def test_another_result_is_different_and_loses_its_mark(results: Path) -> None:
    path = results / COLA
    change(path, forget_everything)
    done = leakboard("verify", path, "--jobs", 1)
    assert done.code == 1
    assert f"different: {path}" in done.out
    assert "type_precision was 0.000" in " ".join(done.out.split())
    assert read_mark(path) is None


def test_a_sample_is_drawn(results: Path) -> None:
    done = leakboard("verify", results, "--sample", 2, "--jobs", 1)
    assert done.code == 0, done.err
    assert len(re.findall(r"^same: ", done.out, re.MULTILINE)) == 2 < len(PLAN)


# --------------------------------------------------------------------------------- not comparable


def before_knowledge(record: dict[str, Any]) -> None:
    record["told"] = None


def older_task(record: dict[str, Any]) -> None:
    record["task_version"] -= 1


def gone_task(record: dict[str, Any]) -> None:
    record["task"] = "mini/gone"


def gone_attack(record: dict[str, Any]) -> None:
    record["attack"] = "gone"


def older_code(record: dict[str, Any]) -> None:
    record["provenance"] |= {"attack_digest": "0" * 64, "git_commit": "c0ffee" + "0" * 34}


def older_defense(record: dict[str, Any]) -> None:
    record["provenance"]["defense_digest"] = "0" * 64


def older_library(record: dict[str, Any]) -> None:
    record["provenance"]["fingerprint"] = "0" * 64
    record["provenance"]["packages"]["torch"] = "1.0"


def other_snapshots(record: dict[str, Any]) -> None:
    record["snapshots"][0]["digest"] = "0" * 64


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (before_knowledge, "it is from before records tell what an attack was handed"),
        (older_task, "it is of version 1 of mini/cola, which is at version 2 now"),
        (gone_task, "there is no task mini/gone any more"),
        (gone_attack, "gone"),
        (older_code, "the code of own_rows has changed since; commit c0ffee000000 had it"),
        (older_defense, "the code of none has changed since"),
        (older_library, "torch 1.0 then"),
        (other_snapshots, "it was made from other snapshots than today's"),
    ],
)
def test_what_cannot_be_repeated_is_a_sentence(how: Change, sentence: str, results: Path) -> None:
    path = results / COLA
    change(path, how)
    assert_not_comparable(path, sentence)


def assert_not_comparable(path: Path, sentence: str) -> None:
    done = leakboard("verify", path, "--jobs", 1, "--json")
    assert done.code == 1
    (verdict,) = json.loads(done.out)
    assert verdict["word"] == "not comparable"
    assert len(verdict["differences"]) == 1
    assert sentence in verdict["differences"][0]
    assert read_mark(path) is None


def test_missing_weights_are_a_sentence(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suites, broken = registry.find_suites()
    tasks = tuple(replace(task, model="package:nowhere") for task in suites["mini"].tasks)
    without = {"mini": replace(suites["mini"], tasks=tasks)}
    monkeypatch.setattr(registry, "find_suites", lambda: (without, broken))
    assert_not_comparable(results / COLA, "There is no model package called 'nowhere'")


def test_a_training_and_a_foreign_file_are_not_repeated(results: Path) -> None:
    training = results / "mini" / "cola" / "prune.s100.utility.json"
    training.write_text("{}")
    assert_not_comparable(training, "only attacks are repeated")
    odd = results / "odd.json"
    odd.write_text("[]")
    assert_not_comparable(odd, "is not a valid record")


def test_no_record_at_all_is_a_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        done = leakboard("verify", path)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert "There is no record" in done.err
