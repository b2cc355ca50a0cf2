"""A clock that is set back: the day in a record is all that depends on it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest

from benchmark.results.schema import Status
from benchmark.runs import provenance
from tests.benchmark.cli.test_cli import stable
from tests.harness import RunCells


class SetBack(datetime):
    """A clock that shows a year of long ago."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SetBack:
        return cls(1999, 12, 31, tzinfo=UTC)


def test_records_and_resuming_do_not_depend_on_the_clock(
    run_cells: RunCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, back = tmp_path / "usual", tmp_path / "back"
    (record,) = run_cells("bag_of_words", results=usual)
    monkeypatch.setattr(provenance, "datetime", SetBack)
    (earlier,) = run_cells("bag_of_words", results=back)
    assert earlier.status is Status.OK
    assert earlier.provenance.created < record.provenance.created
    assert stable(usual) == stable(back)
    for results in (usual, back):
        for path in results.rglob("*.json"):
            os.utime(path, (0, 0))
        assert run_cells("bag_of_words", results=results) == []  # there already
