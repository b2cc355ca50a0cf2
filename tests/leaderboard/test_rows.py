"""A results directory becomes rows, and what is wrong with it is said with the file's name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.results.schema import Status
from benchmark.results.store import score_path
from leaderboard.data.rows import NOT_SCORED, Row, load
from tests.leaderboard.samples import make_record, make_score, make_snapshots, store


def test_a_scored_record_is_a_row(tmp_path: Path) -> None:
    store(tmp_path, make_record(attack_parameters={"loss": "l2"}), make_score())
    (row,) = load(tmp_path)
    assert (row.task, row.attack, row.defense, row.seed) == (
        "mini/cola-b1",
        "lamp[loss=l2]",
        "none",
        0,
    )
    assert row.status == "ok"
    assert row.seconds == pytest.approx(0.9375)


def test_a_record_without_a_score_says_so(tmp_path: Path) -> None:
    store(tmp_path, make_record())
    (row,) = load(tmp_path)
    assert row.status == NOT_SCORED
    assert row.reason


def test_a_stale_score_is_not_used(tmp_path: Path) -> None:
    path = store(tmp_path, make_record(), make_score())
    path.write_text(path.read_text() + "\n")
    (row,) = load(tmp_path)
    assert row.score is None
    assert row.status == NOT_SCORED
    assert "changed after it was scored" in row.reason


def test_an_unsupported_record_needs_no_score(tmp_path: Path) -> None:
    store(tmp_path, make_record(status=Status.UNSUPPORTED, reason="needs labels"))
    (row,) = load(tmp_path)
    assert (row.status, row.reason) == ("unsupported", "needs labels")


def test_a_failure_is_named_by_its_snapshots_where_the_record_says_nothing() -> None:
    row = Row(make_record(snapshots=make_snapshots(failed=8, reason="nan in the loss")))
    assert (row.status, row.reason) == ("error", "nan in the loss")
    assert row.failure_reasons == (("error: nan in the loss", 8),)


def test_snapshots_that_were_never_reached_count_as_failed() -> None:
    record = make_record(status=Status.TIMEOUT, reason="cell limit", snapshots=make_snapshots(5))
    row = Row(record, make_score())
    assert (row.failed, row.total) == (3, 8)
    assert row.failure_reasons == (("never reached (timeout: cell limit)", 3),)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}', "\0"])
def test_a_corrupt_record_is_named_and_left_out(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, make_record())
    (tmp_path / "bad.s0.json").write_text(text)
    for _ in range(2):
        assert len(load(tmp_path)) == 1
    said = capsys.readouterr().err
    assert said.count("bad.s0.json") == 1
    assert "is not a valid record" in said


def test_a_corrupt_score_is_as_good_as_none(tmp_path: Path) -> None:
    path = score_path(store(tmp_path, make_record(), make_score()))
    path.write_text(path.read_text().replace('"mean"', '"means"'))
    assert [row.score for row in load(tmp_path)] == [None]


def test_long_reasons_and_escapes_of_a_foreign_record_are_cut_and_cleaned(tmp_path: Path) -> None:
    path = store(tmp_path, make_record(status=Status.ERROR, reason="x"))
    foreign = json.loads(path.read_text()) | {"reason": "\x1b[31m\nred " + "y" * 1_000_000}
    path.write_text(json.dumps(foreign))
    reason = load(tmp_path)[0].reason
    assert reason.isprintable()
    assert "red yyy" in reason
    assert len(reason) <= 2000


def test_the_same_cell_twice_is_refused(tmp_path: Path) -> None:
    path = store(tmp_path, make_record())
    copy = path.with_name("copy.json")
    copy.write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="same cell"):
        load(tmp_path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        load(tmp_path / "nowhere")
