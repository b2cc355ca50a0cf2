"""The index of records only ever saves time: a plan is the same with it, without it, or damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmark.results.index import FILE, MOST_READ, RecordIndex, Summary
from benchmark.results.schema import Record, Status
from tests.leaderboard.samples import make_record, store


def look(results: Path, path: Path, read: list[Path] | None = None) -> Summary | None:
    """Look up one record and keep the index; `read` notes which files were read for it."""

    def seconds(record: Record) -> float:
        if read is not None:
            read.append(path)
        return 7.5

    index = RecordIndex(results)
    found = index.look_up(path, Record, seconds)
    index.save()
    return found


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("benchmark.results.index.MOST_READ", 1)
    return tmp_path


def test_a_record_is_read_once_and_again_when_it_has_changed(results: Path) -> None:
    path, read = store(results, make_record()), list[Path]()
    first = look(results, path, read)
    assert first is not None
    assert (first.status, first.fingerprint, first.seconds) == (Status.OK, "f" * 64, 7.5)
    assert look(results, path, read) == first
    assert len(read) == 1
    store(results, make_record(status=Status.ERROR, reason="changed"))
    second = look(results, path, read)
    assert second is not None
    assert second.status is Status.ERROR
    assert len(read) == 2


def test_a_clock_that_was_set_back_hides_no_change(results: Path) -> None:
    path = store(results, make_record())
    look(results, path)
    store(results, make_record(status=Status.ERROR, reason="changed"))
    os.utime(path, (0, 0))
    found = look(results, path)
    assert found is not None
    assert found.status is Status.ERROR


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 9, "files": {"x": 1}}', "\0"])
def test_a_damaged_index_is_made_again(results: Path, text: str) -> None:
    path = store(results, make_record())
    first = look(results, path)
    (results / FILE).write_text(text)
    assert look(results, path) == first
    assert RecordIndex(results)._files


def test_files_that_are_gone_or_damaged_count_as_none(results: Path) -> None:
    path = store(results, make_record())
    look(results, path)
    path.write_text("{")
    assert look(results, path) is None
    path.unlink()
    assert look(results, path) is None


def test_a_folder_that_cannot_be_written_or_is_not_there_does_no_harm(tmp_path: Path) -> None:
    index = RecordIndex(tmp_path / "nothing")
    assert index.look_up(tmp_path / "nothing" / "x.json", Record, lambda record: 0.0) is None
    index._read = MOST_READ
    index._path = Path("/proc/nothing/index")
    index.save()
