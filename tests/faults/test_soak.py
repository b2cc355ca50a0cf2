"""The command behind `make soak`, for as long as one fault takes."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.soak import LIST


def test_it_tells_what_was_tried_and_held() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.01", "--only", "download",
         "--seed", "7"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
        env={k: v for k, v in os.environ.items() if k != "LEAKBOARD_SOAK"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "First seed 7" in done.stdout
    *_, last = done.stdout.strip().splitlines()
    tried, held, *_ = last.split()
    assert int(tried) == int(held) >= 1
    assert last.endswith("broken download, wrong hash")


def test_every_fault_is_there() -> None:
    for fault in LIST:
        for path in fault.tests:
            assert (ROOT / path).is_file()
    here = {f"tests/faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")}
    assert here - {path for fault in LIST for path in fault.tests} == {"tests/faults/test_soak.py"}
