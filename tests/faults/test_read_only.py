"""Folders that cannot be written: one sentence before any cell has run, and nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.faults.test_full_disk import RUN, mounted

pytestmark = pytest.mark.long

READ_ONLY = 'mount --bind "$2" "$2" && mount -o "remount,bind,$1" "$2" && shift 2 && exec "$@"'
"""Permission bits do not stop root; a mount that is read-only does."""


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_that_cannot_be_written_are_named_before_anything_runs(
    leakboard: Command, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    assert leakboard(*RUN, results).returncode == 0
    before = files_in(results)
    again = [*RUN, results, "--force"]
    code, said = mounted(READ_ONLY, "ro", results, *again)
    assert code == 2, said
    assert len(said.strip().splitlines()) == 1
    assert f"{results}/" in said
    assert "Read-only file system; check the path and its permissions" in said
    assert files_in(results) == before
    code, said = mounted(READ_ONLY, "ro", results, *RUN, results)
    assert code == 2, said  # nothing to run, and still no place for it


def test_a_cache_that_cannot_be_written_is_named(
    leakboard: Command, tmp_path: Path, cache: Path
) -> None:
    """A cache with everything that the cell needs, of a run before it."""
    assert leakboard(*RUN, tmp_path / "first").returncode == 0
    old = shutil.copytree(cache, tmp_path / "cache", ignore=shutil.ignore_patterns("jobs"))
    out = tmp_path / "out"
    code, said = mounted(READ_ONLY, "ro", old, *RUN, out, LEAKBOARD_CACHE=old)
    assert code == 2, said
    assert len(said.strip().splitlines()) == 1
    assert f"{old}/" in said
    assert "Read-only file system" in said
    assert not list(out.rglob("*.json"))
    assert leakboard(*RUN, out, LEAKBOARD_CACHE=old).returncode == 0
