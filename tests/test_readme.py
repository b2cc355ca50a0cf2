"""What the README says works, works."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.conftest import ROOT, Command

README = (ROOT / "README.md").read_text()


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


def test_every_file_it_names_is_there() -> None:
    for name in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).exists(), name


def test_it_holds_the_models_own_figures() -> None:
    """The table of models is what training measured, to the digits it shows."""
    for path in (ROOT / "tasks/models/weights").glob("*/metrics.json"):
        facts = json.loads(path.read_text())
        line = next(row for row in README.splitlines() if row.startswith(f"| `{path.parent.name}`"))
        for score in facts["scores"][:1]:
            assert f"{score['trained']:.3g}" in line, (path.parent.name, score)
