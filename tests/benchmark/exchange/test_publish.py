"""Published results: every figure, no text and no token id, and every command copes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmark.files import file_digest, read_model
from benchmark.results.schema import Record, Score
from benchmark.results.store import record_files, score_path
from benchmark.results.withholding import KEPT_BACK, withhold
from benchmark.status import Status
from leaderboard import load_results
from tests.benchmark.exchange.conftest import PLAN, Published
from tests.in_process import leakboard

COLA = Path("mini/cola/none/own_rows.s100.json")


@pytest.fixture(scope="module")
def measured(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scored records with texts: those of the submitter, and a baseline that writes sentences."""
    results = tmp_path_factory.mktemp("measured") / "results"
    shutil.copytree(published.results, results)
    words = ("--attack", "prior_only", "--seed", 100, "--jobs", 1, "--results", results)
    assert leakboard("run", "--task", "cola", *words).code == 0
    assert leakboard("score", "--results", results).code == 0
    return results


@pytest.fixture
def board(measured: Path, tmp_path: Path) -> Path:
    """The same, published."""
    done = leakboard("publish", "--results", measured, "--out", tmp_path / "out", "--suite", "mini")
    assert done.code == 0, done.err
    assert done.out.startswith(f"{len(PLAN) + 1} records of mini")
    return tmp_path / "out"


def test_no_text_and_no_id_is_left(measured: Path, board: Path) -> None:
    private, recovered = set[str](), set[str]()
    for path in record_files(measured):
        examples = read_model(score_path(path), Score).examples
        private |= {example.truth for example in examples}
        recovered |= {text for s in read_model(path, Record).snapshots for text in s.texts}
    assert private
    assert recovered
    files = [path for path in board.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_text()
        assert not [text for text in private | recovered if text and text in content]
    for path in record_files(board):
        snapshots = json.loads(path.read_text())["snapshots"]
        for result in snapshots:
            assert (result["sentences"], result["texts"], result["note"]) == ([], [], "")
            assert result["token_types"] is None
        assert json.loads(score_path(path).read_text())["examples"] == []


def test_every_figure_is_left(measured: Path, board: Path) -> None:
    for path in record_files(measured):
        before = read_model(score_path(path), Score)
        after = read_model(score_path(board / path.relative_to(measured)), Score)
        assert after.metrics == before.metrics
        assert after.truths == before.truths
        old, new = (read_model(root / path.relative_to(measured), Record)
                    for root in (measured, board))  # fmt: skip
        assert new.provenance == old.provenance
        assert [s.seconds for s in new.snapshots] == [s.seconds for s in old.snapshots]


def test_scores_are_taken_over_and_never_computed_again(board: Path) -> None:
    before = {path: path.read_bytes() for path in board.rglob("*.score.json")}
    for options in ((), ("--force",)):
        done = leakboard("score", "--results", board, *options)
        assert done.code == 0, done.err
        assert done.out.startswith(f"{len(PLAN) + 1} unchanged")
    assert {path: path.read_bytes() for path in before} == before
    score_path(board / COLA).unlink()
    done = leakboard("score", "--results", board)
    assert done.code == 1
    assert "published without what was recovered" in done.err


def test_boards_are_the_same(measured: Path, board: Path, tmp_path: Path) -> None:
    shown = [leakboard("show", "--results", root, "--json") for root in (measured, board)]
    assert shown[0].code == 0, shown[0].err
    assert json.loads(shown[0].out) == json.loads(shown[1].out)
    assert load_results(measured).equals(load_results(board))
    done = leakboard("site", "--results", board, "--out", tmp_path / "site")
    assert done.code == 0, done.err


def test_what_is_repeated_is_told_to_be_the_same(board: Path) -> None:
    done = leakboard("verify", board / COLA, "--jobs", 1)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"same: {board / COLA}"


def test_other_answers_are_compared_by_their_figures(board: Path) -> None:
    path = board / COLA
    record = json.loads(path.read_text())
    record["withheld"] = "0" * 64
    record["provenance"]["attack_digest"] = "of other code"
    path.write_text(json.dumps(record))
    done = leakboard("verify", path, "--jobs", 1)
    assert (done.code, "has changed since" in done.out) == (1, True)
    done = leakboard("verify", path, "--jobs", 1, "--changed")
    assert (done.code, "its figures are missing" in done.out) == (1, True)
    score = json.loads(score_path(path).read_text())
    score["record_digest"] = file_digest(path)
    score_path(path).write_text(json.dumps(score))
    done = leakboard("verify", path, "--jobs", 1, "--changed", "--json")
    (verdict,) = json.loads(done.out)
    assert (done.code, verdict["word"]) == (0, "within interval"), verdict
    assert not path.with_name("own_rows.s100.verified.json").exists()


def test_texts_are_kept_where_both_are_merged(measured: Path, board: Path, tmp_path: Path) -> None:
    for number, order in enumerate(((board, measured), (measured, board))):
        out = tmp_path / f"merged-{number}"
        done = leakboard("merge", *order, "--out", out)
        assert done.code == 0, done.err
        assert (out / COLA).read_bytes() == (measured / COLA).read_bytes()


def test_a_folder_is_never_published_over_itself(measured: Path) -> None:
    done = leakboard("publish", "--results", measured, "--out", measured, "--suite", "mini")
    assert (done.code, "would lose its texts" in done.err) == (2, True)


def test_seeds_for_tuning_and_other_suites_are_not_published(
    measured: Path, tmp_path: Path
) -> None:
    done = leakboard("publish", "--results", measured, "--out", tmp_path / "none")
    assert done.code == 1
    assert not list(tmp_path.rglob("*.json"))


def test_what_an_attack_says_is_kept_back(measured: Path) -> None:
    record = read_model(measured / COLA, Record)
    failed = record.snapshots[0].model_copy(update={"status": Status.ERROR, "reason": "a secret"})
    bare = withhold(record.model_copy(update={"snapshots": [failed]}))
    assert bare.snapshots[0].reason == KEPT_BACK
    assert withhold(bare) is bare
