"""A full disk and a folder that cannot be written: one sentence with the path, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmark.files import read_model
from benchmark.results.schema import Record
from tests.conftest import ROOT

pytestmark = pytest.mark.long

MOUNT = 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && exec "$@"'
"""In namespaces of its own, so that nobody else sees the small disk."""
SOAK = "LEAKBOARD_SOAK" in os.environ


def on_a_small_disk(size: str, folder: Path, *words: object, **more: object) -> tuple[int, str]:
    """Exit code and complaint of a command for which a folder lies on a small disk."""
    folder.mkdir()
    return mounted(MOUNT, size, folder, *words, **more)


def mounted(
    script: str, option: str, folder: Path, *words: object, **more: object
) -> tuple[int, str]:
    """Exit code and complaint of a command for which a folder is mounted as the script says."""
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    shell += [option, str(folder)]
    if subprocess.run([*shell, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    command = [sys.executable, "-m", "benchmark.cli", *map(str, words)]
    done = subprocess.run(
        [*shell, *command],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
        env=os.environ | {"LEAKBOARD_SUBMISSIONS": ""} | {k: str(v) for k, v in more.items()},
    )  # fmt: skip
    return done.returncode, done.stderr


RUN = ("run", "--task", "cola-b4", "--attack", "bag_of_words", "--jobs", 1, "--results")


def test_a_full_results_folder_is_named(tmp_path: Path) -> None:
    code, said = on_a_small_disk("16k", tmp_path / "full", *RUN, tmp_path / "full")
    assert code == 2, said
    assert len(said.strip().splitlines()) == 1
    assert f"{tmp_path}/full/mini/cola-b4/none/bag_of_words.s0.json: No space left" in said
    assert "free some space" in said


@pytest.mark.skipif(not SOAK, reason="make soak tries it")
@pytest.mark.parametrize("size", ["64k", "1m"])
def test_a_full_cache_is_named(size: str, tmp_path: Path) -> None:
    cache = tmp_path / "full"
    code, said = on_a_small_disk(size, cache, *RUN, tmp_path / "out", LEAKBOARD_CACHE=cache)
    assert code == 2, said
    assert len(said.strip().splitlines()) == 1
    assert str(cache) in said
    assert "No space left" in said


@pytest.mark.skipif(not SOAK, reason="make soak tries it")
def test_a_job_that_fills_the_disk_fails_alone(tmp_path: Path) -> None:
    """Its folder is removed, so there is space again; the record tells, and the cell runs again."""
    cache, out = tmp_path / "full", tmp_path / "out"
    code, said = on_a_small_disk("6m", cache, *RUN, out, LEAKBOARD_CACHE=cache)
    assert code == 1, said
    (path,) = out.rglob("bag_of_words.s0.json")
    assert "No space left" in read_model(path, Record).reason
