"""What the README says works, works."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.conftest import ROOT, Command

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_attack_runs_as_printed(leakboard: Command, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code is not None
    (tmp_path / "mine" / "attacks").mkdir(parents=True)
    (tmp_path / "mine" / "attacks" / "largest_rows.py").write_text(code.group(1))
    results = tmp_path / "results"
    done = leakboard("run", "--task", "cola", "--attack", "largest_rows", "--results", results,
                     LEAKBOARD_SUBMISSIONS=tmp_path / "mine")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert leakboard("score", "--results", results).returncode == 0
    row = json.loads(leakboard("show", "--results", results, "--json").stdout)[0]
    assert row["metrics"]["type_recall"]["mean"] > 0.5


def test_its_commands_find_the_command() -> None:
    """Outside the virtual environment there is no `leakboard`: a block activates it first."""
    for block in re.findall(r"```\n(.*?)```", README, re.DOTALL):
        lines = block.splitlines()
        if any(line.startswith("leakboard ") for line in lines):
            assert lines[0] == "source .venv/bin/activate", block
