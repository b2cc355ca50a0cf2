"""Planning reads digests and records; it loads no model and starts no worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT, Command

PLAN = ("run", "--dry-run", "--results", "no-results-yet")
HEAVY = ("torch", "transformers", "tokenizers", "scipy", "sklearn", "spacy")
CODE = f"""
import sys
from benchmark.cli.app import app
from benchmark.execution.engines.slot import Slot
def start(slot): raise AssertionError("a worker was started")
Slot.start = start
app(list({PLAN!r}), standalone_mode=False)
print("imported", *(name for name in {HEAVY!r} if name in sys.modules))
"""


def test_a_dry_run_of_everything_imports_no_torch_and_starts_no_worker(
    leakboard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEAKBOARD_SUBMISSIONS", raising=False)  # broken ones are asked each time
    first = leakboard(*PLAN)
    assert first.returncode == 0, first.stderr
    again = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert again.returncode == 0, again.stderr
    *plan, imported = again.stdout.splitlines()
    assert plan == first.stdout.splitlines()
    assert len(plan) > 200
    assert imported.split() == ["imported"]
