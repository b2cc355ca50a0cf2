"""Results of several machines: each cell once, contradictions by name, and nothing half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.results.merge import merge
from benchmark.results.schema import Record, Status
from benchmark.results.store import fresh_score, score_path
from benchmark.results.verification import read_mark
from tests.conftest import Command
from tests.leaderboard.samples import make_record, make_score, make_snapshots, store


def elsewhere(record: Record) -> Record:
    """The same cell, run on another machine at another time."""
    place = record.provenance.model_copy(update={"processor": "another", "cores": 99})
    slower = [s.model_copy(update={"seconds": (s.seconds or 0) + 1}) for s in record.snapshots]
    update = {"provenance": place, "snapshots": slower, "peak_mb": 4321.0}
    return record.model_copy(update=update)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.json")}


def test_different_cells_are_joined_and_identical_ones_kept_once(tmp_path: Path) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    both = make_record()
    first = store(one, both, make_score())
    store(two, elsewhere(both), make_score())
    other = store(two, make_record(attack="dager"))
    assert merge([one, two], out) == 2
    assert (out / first.relative_to(one)).read_bytes() == first.read_bytes()
    assert (out / other.relative_to(two)).read_bytes() == other.read_bytes()
    assert fresh_score(out / first.relative_to(one)) is not None
    before = files(out)
    assert merge([two, one], out) == 2  # what is there counts as the first
    assert files(out) == before


def test_a_contradiction_is_refused_by_name_and_nothing_is_written(tmp_path: Path) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    record = make_record()
    mine = store(one, record)
    changed = [s.model_copy(update={"sentences": [[1, 2]]}) for s in record.snapshots]
    theirs = store(two, record.model_copy(update={"snapshots": changed}))
    store(two, make_record(attack="dager"))
    with pytest.raises(
        UserError, match=r"same cell with different results \(snapshots\)"
    ) as caught:
        merge([one, two], out)
    assert str(mine) in str(caught.value)
    assert str(theirs) in str(caught.value)
    assert not out.exists()


def test_what_is_done_replaces_what_failed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    snapshots = make_snapshots(failed=8, reason="lost")
    store(one, make_record(status=Status.ERROR, reason="lost", snapshots=snapshots))
    done = store(two, make_record())
    assert merge([one, two], tmp_path / "out") == 1
    assert (tmp_path / "out" / done.relative_to(two)).read_bytes() == done.read_bytes()


def test_files_that_cannot_be_trusted_are_refused_by_name(tmp_path: Path) -> None:
    one, out = tmp_path / "one", tmp_path / "out"
    good = store(one, make_record())
    (one / "bad.s0.json").write_text("{")
    with pytest.raises(UserError, match=r"bad\.s0\.json is not a valid record"):
        merge([one], out)
    (one / "bad.s0.json").unlink()
    wrong = good.with_name("another.s0.json")
    wrong.write_bytes(good.read_bytes())
    with pytest.raises(UserError, match=r"another\.s0\.json holds the cell of"):
        merge([one], out)
    assert not out.exists()


def test_scores_and_marks_of_other_files_stay_behind(tmp_path: Path) -> None:
    path = store(tmp_path / "one", make_record(), make_score())
    path.write_text(path.read_text() + "\n")  # the score is of the file as it was
    assert merge([tmp_path / "one"], tmp_path / "out") == 1
    target = tmp_path / "out" / path.relative_to(tmp_path / "one")
    assert not score_path(target).exists()
    assert read_mark(target) is None


def test_the_command(leakboard: Command, tmp_path: Path) -> None:
    store(tmp_path / "one", make_record())
    done = leakboard("merge", tmp_path / "one", "--out", tmp_path / "out")
    assert (done.returncode, "holds 1 cell;" in done.stdout) == (0, True), done.stderr
    missing = leakboard("merge", tmp_path / "nothing", "--out", tmp_path / "out")
    assert missing.returncode == 2
    assert "There is no folder" in missing.stderr
