"""A broken submission never costs the page: everything else runs, and it is named at the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.small_tree import SmallTree, copy_tree

pytestmark = pytest.mark.long

BROKEN = "class Broken(\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SmallTree:
    made = copy_tree(tmp_path_factory.mktemp("broken") / "checkout")
    plan = [("cola", "prior_only", defense) for defense in ("none", "mask", "prune")]
    made.write_suite(
        ["cola"], [*plan, ("cola", "random", "none")], [("cola", "none"), ("cola", "prune")]
    )
    return made


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a user sees last on standard error."""
    return done.stderr.strip().splitlines()[-1]


def records(folder: Path) -> set[str]:
    """The records below a folder, as `defense/attack`."""
    found = (p for p in folder.rglob("*.s100.json") if not p.name.endswith(".score.json"))
    return {f"{path.parent.name}/{path.name.removesuffix('.s100.json')}" for path in found}


def test_broken_builtin_submissions(tree: SmallTree, tmp_path: Path) -> None:
    """An attack and a defense that the suite's own plan names, also for training."""
    named = ("attacks/random.py", "defenses/prune.py")
    whole = {path: path.read_text() for path in (tree.root / "submissions" / n for n in named)}
    for path in whole:
        path.write_text(BROKEN)
    results, site = tree.root / "results", tmp_path / "site"
    where = {"RESULTS": results, "SITE": site}
    made = tree.make_leaderboard(**where)
    assert made.returncode != 0
    assert records(results) == {"none/prior_only", "mask/prior_only"}
    assert len(list(results.rglob("none/*.utility.json"))) == 3
    page = (site / "index.html").read_text()
    assert "Plug-ins that did not load" in page
    assert "prior_only" in page
    assert "Running:" not in page
    assert "Error 1" in made.stderr  # make's own word for the recipe's exit code
    last = [line for line in made.stderr.splitlines() if line.startswith("broken ")]
    for name in ("attack submissions/attacks/random.py", "defense submissions/defenses/prune.py"):
        assert any(line.startswith(f"broken {name}: SyntaxError") for line in last[-2:])

    (site / "index.html").unlink()
    mistaken = tree.make_leaderboard(OPTIONS="--nonsense", **where)
    assert mistaken.returncode != 0
    assert "No such option" in mistaken.stderr
    assert (site / "index.html").read_text() == page
    for path, text in whole.items():
        path.write_text(text)


def test_a_broken_plugin(tree: SmallTree, tmp_path: Path) -> None:
    """Each command goes on without it, names it last, and exits with 1."""
    (tmp_path / "mine" / "attacks").mkdir(parents=True)
    (tmp_path / "mine" / "attacks" / "mine.py").write_text(BROKEN)
    results, site = tree.root / "results", tmp_path / "site"
    chosen = ("run", "--suite", "tiny", "--defense", "none", "--seed", 100)
    for command in (chosen, ("score",), ("site", "--out", site)):
        done = tree.leakboard(*command, "--results", results,
                              LEAKBOARD_SUBMISSIONS=tmp_path / "mine")  # fmt: skip
        assert done.returncode == 1, (command, done.stdout, done.stderr)
        assert last_line(done).startswith(f"broken attack {tmp_path}/mine/attacks/mine.py: Syntax")
        assert "Traceback" not in done.stderr
    assert "prior_only" in (site / "index.html").read_text()
