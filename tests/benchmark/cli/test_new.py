"""`leakboard new`: files that run as they are, wherever they are put."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from benchmark.conformance.suite import Conformance
from benchmark.execution.engines.local import LocalEngine
from tests.conftest import ROOT
from tests.in_process import leakboard


@pytest.mark.parametrize("kind", ["attack", "defense"])
def test_what_is_written_keeps_the_contract(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Without a word changed, there is no problem and no warning."""
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", "")
    done = leakboard("new", kind, "my_method", "--dir", tmp_path / "new" / "folder")
    assert done.code == 0, done.err
    file = tmp_path / "new" / "folder" / "my_method.py"
    assert f"leakboard check {file}" in done.out
    assert [path.name for path in file.parent.iterdir()] == ["my_method.py"]
    with LocalEngine(["cpu"], 1) as engine:
        suite = Conformance(engine)
        target = suite.find(str(file))
        assert target.kind == kind
        assert list(map(str, suite.check(target, full=False))) == []


def test_a_test_file_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies beside the submission and checks that very file."""
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", "")
    done = leakboard("new", "attack", "my_method", "--dir", tmp_path, "--test")
    assert done.code == 0, done.err
    written = runpy.run_path(str(tmp_path / "test_my_method.py"))
    assert written["FILE"] == tmp_path / "my_method.py"
    assert callable(written["test_it_keeps_the_contract"])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("My-Attack", "is no name of a submission"),
        ("../escape", "is no name of a submission"),
        ("dager", "is taken by submissions/attacks/dager.py"),
        ("there", "exists already"),
    ],
)
def test_a_name_that_will_not_do(name: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("mine\n")
    done = leakboard("new", "attack", name, "--dir", tmp_path)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert sentence in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]
    assert (tmp_path / "there.py").read_text() == "mine\n"
    assert not (ROOT / "submissions" / "attacks" / "there.py").exists()
