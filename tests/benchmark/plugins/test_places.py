"""Submissions from a path, a folder and an installed package: every command treats them alike."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmark.conformance.suite import Conformance
from benchmark.execution.engines.local import LocalEngine
from tests.in_process import leakboard

ATTACK = '''"""Takes the tokens whose embedding rows changed."""

from benchmark.spec import Attack, Observation, Recovery, Role


class Rows(Attack):
    """Reads rows that are not zero."""

    name = "{name}"
    summary = "Takes the tokens whose embedding rows changed."
    objectives = frozenset({{"classification"}})
    observes = frozenset({{Role.WORD_EMBEDDING}})

    def recover(self, observation: Observation) -> Recovery:
        rows = observation.gradient(Role.WORD_EMBEDDING).norm(dim=1)
        return Recovery(token_types=frozenset(rows.nonzero().flatten().tolist()))
'''
NAMES = ("by_path", "by_folder", "by_flat_folder", "by_package")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same attack under four names; the package lies where workers may read."""
    library = tmp_path / "sorted" / "blocks"
    files = {
        "by_path": tmp_path / "by_path.py",
        "by_folder": tmp_path / "sorted" / "attacks" / "by_folder.py",
        "by_flat_folder": tmp_path / "flat" / "by_flat_folder.py",
        "by_package": library / "by_package" / "__init__.py",
    }
    for name, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ATTACK.format(name=name))
    (tmp_path / "flat" / "test_by_flat_folder.py").write_text("raise SystemExit\n")
    info = library / "by_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: by_package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[leakboard.submissions]\nattack.by_package = by_package:Rows\n"
    )
    monkeypatch.syspath_prepend(library)
    monkeypatch.setenv("PYTHONPATH", str(library))
    paths = (files["by_path"], tmp_path / "sorted", tmp_path / "flat")
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", os.pathsep.join(map(str, paths)))
    return tmp_path


def test_all_places_are_alike(places: Path, cache: Path) -> None:
    listed = json.loads(leakboard("list", "attacks", "--json").out)
    assert set(NAMES) <= {row["name"] for row in listed["attacks"]}
    assert "broken" not in listed, listed["broken"]

    results, site = places / "results", places / "site"
    cells = ("--task", "cola", "--attack", ",".join(NAMES), "--results", results, "--jobs", 1)
    ran = leakboard("run", *cells)
    assert ran.code == 0, ran.err
    records = [json.loads(path.read_text()) for path in results.rglob("*.json")]
    assert {record["attack"]: record["status"] for record in records} == dict.fromkeys(NAMES, "ok")
    answers = [[s["token_types"] for s in record["snapshots"]] for record in records]
    assert all(answer == answers[0] for answer in answers)

    assert leakboard("score", "--results", results).code == 0
    drawn = leakboard("site", "--results", results, "--out", site)
    assert drawn.code == 0, drawn.err
    front = (site / "index.html").read_text()
    assert all(f">{name}</a>" in front for name in NAMES)


def test_each_is_checked(places: Path, cache: Path) -> None:
    with LocalEngine(["cpu"], 1) as engine:
        suite = Conformance(engine)
        problems = {name: suite.check(suite.find(name), full=False) for name in NAMES}
    assert problems == {name: [] for name in NAMES}
