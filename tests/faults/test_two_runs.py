"""Runs at once, on one cache that nobody has used and on one results folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmark.cli.test_cli import stable
from tests.conftest import ROOT

pytestmark = pytest.mark.long

SMALL = ("run", "--task", "cola-b4", "--attack", "bag_of_words,random,public_sentences")


def start(results: Path, cache: Path, *more: str) -> subprocess.Popen[str]:
    """The command in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmark.cli", *SMALL, "--results", str(results), "--jobs", "1",
         *more],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"LEAKBOARD_CACHE": str(cache), "LEAKBOARD_SUBMISSIONS": ""},
    )  # fmt: skip


def at_once(cache: Path, *results: Path) -> None:
    """Runs that begin together, one for each results folder; all of them end well."""
    runs = [start(folder, cache) for folder in results]
    for run in runs:
        said, _ = run.communicate(timeout=300)
        assert run.returncode == 0, said


def test_a_cache_and_a_results_folder_serve_several_runs_at_once(tmp_path: Path) -> None:
    """Each prepares the same model and builds the same snapshots, and all end well and alike.

    One run has a results folder of its own, the other two share one.
    """
    fresh = tmp_path / "cache"
    own, both = tmp_path / "own", tmp_path / "both"
    at_once(fresh, own, both, both)
    assert stable(own) == stable(both)
    assert len(stable(own)) == 3
    left = [path for folder in ("jobs", "staging") for path in (fresh / folder).rglob("*")]
    assert left == []
    assert not list(tmp_path.rglob("*.part"))
