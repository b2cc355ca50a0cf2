"""The main job in every sandbox that this machine has: run, train, score and render.

Every attack and every defense that the catalog finds takes part once, on a small task that it
supports, so a new submission is covered without a word here. One whose defaults are slow is run
quickly where it has a variant called quick or a parameter called steps.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmark.execution import landlock, sandbox
from tests.small_tree import SmallTree, copy_tree

pytestmark = pytest.mark.long

TASKS = ("iwslt", "wikitext-pretrained", "cola", "agnews-fl")
"""One of each objective, and a federated one; an attack is run on the first that it supports."""
STEPS = 20
Item = dict[str, Any]


@dataclass(frozen=True)
class MainPath:
    """A checkout whose suite has every submission in its plan, and what those are called."""

    tree: SmallTree
    attacks: set[str]
    defenses: set[str]


def quickly(attack: Item) -> str:
    """The attack as the plan names it: its quickest variant, with few steps."""
    name = min((n for n in attack["variants"] if "quick" in n), key=len, default=attack["name"])
    return f"{name}[steps={STEPS}]" if "steps" in attack["parameters"] else name


def home_of(attack: Item, tasks: dict[str, Item]) -> str:
    """The first task that the attack supports."""
    return next(
        name
        for name in TASKS
        if tasks[f"mini/{name}"]["objective"] in attack["objectives"]
        and set(attack["needs"]) <= set(tasks[f"mini/{name}"]["grants"])
    )


@pytest.fixture(scope="module")
def main_path(tmp_path_factory: pytest.TempPathFactory) -> MainPath:
    tree = copy_tree(tmp_path_factory.mktemp("main-path") / "checkout")

    def listed(what: str) -> dict[str, Item]:
        done = tree.leakboard("list", what, "--json")
        found = json.loads(done.stdout)
        assert "broken" not in found, found["broken"]
        return {item["name"]: item for item in found[what]}

    tasks, attacks, defenses = listed("tasks"), listed("attacks"), listed("defenses")
    plan = [(home_of(a, tasks), quickly(a), "none") for a in attacks.values()]
    anywhere = next(name for name, a in attacks.items() if not a["observes"] and not a["needs"])
    plan += [("cola", anywhere, defense) for defense in defenses if defense != "none"]
    tree.write_suite(TASKS, plan, [("cola", defense) for defense in defenses])
    return MainPath(tree, set(attacks), set(defenses))


def unavailable(kind: str) -> str:
    """Why a sandbox cannot be had here; empty where it can."""
    if kind == sandbox.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    if kind == sandbox.LANDLOCK and not landlock.version():
        return "this kernel has no Landlock"
    return ""


@pytest.mark.parametrize("kind", sandbox.SANDBOXES)
def test_every_submission_runs_trains_scores_and_is_shown(
    kind: str, main_path: MainPath, tmp_path: Path
) -> None:
    if reason := unavailable(kind):
        pytest.skip(reason)
    results, site = tmp_path / "results", tmp_path / "site"
    for command in (
        ("run", "--suite", "tiny", "--with-utility", "--trainings", "1"),
        ("score",),
        ("site", "--out", site),
    ):
        done = main_path.tree.leakboard(
            *command, "--results", results,
            LEAKBOARD_SANDBOX=kind, LEAKBOARD_CACHE=tmp_path / "cache",
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        warned = "foreign code is not contained" in done.stderr
        assert warned == (kind == sandbox.AUDIT_HOOK and command[0] == "run")
    check_records(results, kind, main_path)
    front = (site / "index.html").read_text()
    assert f"sandbox <b>{kind}</b>" in front
    for role, names in (("attack", main_path.attacks), ("defense", main_path.defenses)):
        for name in names:
            page = (site / "submissions" / f"{role}-{name}.html").read_text()
            assert f">{name}</a>" in front
            assert "tiny/" in page  # it has a result of its own


def check_records(results: Path, kind: str, main_path: MainPath) -> None:
    """Nothing failed, and every submission has a result that counts."""
    attacked: list[dict[str, str]] = []
    trained: list[dict[str, str]] = []
    for path in sorted(results.rglob("*.json")):
        record = json.loads(path.read_text())
        if "provenance" in record:
            assert record["status"] in ("ok", "unsupported"), (path.name, record["reason"])
            assert record["provenance"]["sandbox"] == kind
            (attacked if "attack" in record else trained).append(record)
    fine = [record for record in attacked if record["status"] == "ok"]
    assert {record["attack"] for record in fine} == main_path.attacks
    refused = {r["defense"] for r in attacked if "nothing leaves the client" in r["reason"]}
    assert {record["defense"] for record in fine} | refused == main_path.defenses
    assert {record["defense"] for record in trained} == main_path.defenses
    unsent = [r["defense"] for r in trained if "nothing leaves the client" in r["reason"]]
    assert set(unsent) == refused, "such a method is trained on federated tasks only"
    assert all(r["metrics"] for r in trained if r["defense"] not in unsent)
    assert len(list(results.rglob("*.score.json"))) == len(attacked)
