"""Folders that cannot be written: one sentence before any cell has run, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmark.cli.test_cli import stable
from tests.conftest import Command
from tests.faults.test_full_disk import RUN, SOAK, mounted

pytestmark = pytest.mark.long

READ_ONLY = 'mount --bind "$2" "$2" && mount -o "remount,bind,$1" "$2" && shift 2 && exec "$@"'
"""Permission bits do not stop root; a mount that is read-only does."""


def refused(said: str, folder: Path) -> bool:
    """Whether one sentence names the folder, or a file in it, and what to do."""
    (line,) = said.strip().splitlines()
    return f"{folder}/" in line and "Read-only file system; check the path" in line


def test_results_that_cannot_be_written_are_named_before_anything_runs(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    code, said = mounted(READ_ONLY, "ro", results, *RUN, results)
    assert code == 2, said
    assert refused(said, results)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    code, said = mounted(READ_ONLY, "ro", cache, *RUN, tmp_path / "out", LEAKBOARD_CACHE=cache)
    assert code == 2, said
    assert refused(said, cache)


@pytest.mark.skipif(not SOAK, reason="make soak tries it")
def test_what_was_there_before_stays_and_the_next_run_completes(
    leakboard: Command, tmp_path: Path
) -> None:
    """Records and a cache that a run before has filled."""
    cache, results, out = tmp_path / "cache", tmp_path / "results", tmp_path / "out"
    assert leakboard(*RUN, results, LEAKBOARD_CACHE=cache).returncode == 0
    before = stable(results)
    more = {"LEAKBOARD_CACHE": cache}
    code, said = mounted(READ_ONLY, "ro", results, *RUN, results, "--force", **more)
    assert code == 2, said
    assert refused(said, results)
    code, said = mounted(READ_ONLY, "ro", cache, *RUN, out, **more)
    assert code == 2, said
    assert refused(said, cache)
    assert leakboard(*RUN, out, **more).returncode == 0
    assert stable(out) == stable(results) == before
