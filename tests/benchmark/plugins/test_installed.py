"""Submissions of installed packages: found and fingerprinted without running a line of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmark.plugins.installed import NotLocated, locate
from tests.conftest import Command

INTRUDER = """
import os
try:
    with open({marker!r}, "w") as marker:
        marker.write("imported outside")
except OSError:
    pass
"""
ATTACK = """
from benchmark.spec import Attack, Recovery
from intruder.words import SUMMARY

class Guest(Attack):
    name = "guest"
    summary = SUMMARY

    def recover(self, observation):
        return Recovery([[5]])
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder like `site-packages`, which a worker may read: it lies among building blocks."""
    site = tmp_path / "submissions" / "blocks"
    package, info = site / "intruder", site / "intruder-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(INTRUDER.format(marker=str(tmp_path / "marker")))
    (package / "words.py").write_text("SUMMARY = 'Comes with a package.'\n")
    (package / "attack.py").write_text(ATTACK)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intruder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[leakboard.submissions]\n"
        "attack.guest = intruder.attack:Guest\n"
        "attack.ghost = nowhere.attack:Ghost\n"
        "attack.odd = intruder attack\n"
    )
    return site


def test_nothing_of_an_installed_submission_is_imported_outside(
    site: Path, leakboard: Command, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    places = {"PYTHONPATH": site, "LEAKBOARD_SUBMISSIONS": site.parent}
    listed = json.loads(leakboard("list", "attacks", "--json", **places).stdout)
    assert "guest" in {row["name"] for row in listed["attacks"]}
    reasons = {item["where"]: item["reason"] for item in listed["broken"]}
    assert "there is no package nowhere" in reasons["entry point attack.ghost"]
    assert "not of the form module:Class" in reasons["entry point attack.odd"]
    choice = ("run", "--task", "cola", "--attack", "guest", "--results", tmp_path / "results")
    planned = leakboard(*choice, "--dry-run", **places)
    assert "guest" in planned.stdout, planned.stderr
    leakboard(*choice, **places)
    record = json.loads((tmp_path / "results/mini/cola/none/guest.s0.json").read_text())
    assert record["status"] == "ok", record["reason"]
    assert not marker.exists()
    variables = os.environ | {"PYTHONPATH": str(site)}
    subprocess.run([sys.executable, "-c", "import intruder"], env=variables, check=True)
    assert marker.exists()  # so it would have been seen


def test_a_digest_covers_the_whole_package(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)
    code = locate("intruder.attack:Guest")
    assert code.root == site / "intruder"
    assert [path.name for path in code.files()] == ["__init__.py", "attack.py", "words.py"]
    assert code.reference == f"intruder.attack:Guest@{site}"
    assert "intruder" not in sys.modules


def test_modules_and_namespace_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("first/space", "second/space/deep/code"):
        (tmp_path / folder).mkdir(parents=True)
        monkeypatch.syspath_prepend(tmp_path / folder.partition("/")[0])
    (tmp_path / "first/alone.py").write_text("raise SystemExit\n")
    (tmp_path / "first/space/flat.py").write_text("raise SystemExit\n")
    (tmp_path / "second/space/deep/code/__init__.py").write_text("raise SystemExit\n")
    assert locate("alone:A").files() == [tmp_path / "first/alone.py"]
    assert locate("space.flat:A").files() == [tmp_path / "first/space/flat.py"]
    deep = locate("space.deep.code.part:A")
    assert deep.root == tmp_path / "second/space/deep/code"
    assert deep.search == tmp_path / "second"
    for missing in ("space:A", "space.deep:A", "space.none:A"):
        with pytest.raises(NotLocated, match="with code on the import path"):
            locate(missing)


@pytest.mark.parametrize("value", ["os", "os:path.join", "a b:C", "é:C", ":C", "x:C [extra]"])
def test_what_names_no_class_is_refused(value: str) -> None:
    with pytest.raises(NotLocated, match="not of the form module:Class"):
        locate(value)


def test_an_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed/__init__.py", "raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    with pytest.raises(NotLocated, match="lies in an archive"):
        locate("packed:A")


def test_what_python_itself_would_find_needs_no_folder() -> None:
    assert locate("json.decoder:JSONDecoder").reference == "json.decoder:JSONDecoder"
