"""The registry: plug-ins are found, broken ones are named, parameters are checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark import registry
from benchmark.errors import UserError
from benchmark.planning import split_parameters
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
    listed = json.loads(leakboard("list", "defenses", "--json").stdout)
    reasons = {Path(item["where"]).stem: item["reason"] for item in listed["broken"]}
    assert "breaks the protocol" in reasons["climber"]
    assert not any("evil" in row["name"] for row in listed["defenses"])


def test_a_digest_follows_the_shared_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "ROOT", tmp_path)
    blocks = tmp_path / "submissions" / "blocks"
    blocks.mkdir(parents=True)
    near, far, attack = blocks / "near.py", blocks / "far.py", tmp_path / "attack.py"
    attack.write_text("from submissions.blocks.near import x\n")
    near.write_text("from submissions.blocks import far\n")
    far.write_text("x = 1\n")
    before = registry.source_digest(str(attack))
    (blocks / "other.py").write_text("nobody imports this\n")
    assert registry.source_digest(str(attack)) == before
    far.write_text("x = 2\n")
    assert registry.source_digest(str(attack)) != before


def entry() -> registry.Entry:
    rules = {
        "ratio": {"default": 0.9, "meaning": "", "low": 0.0, "high": 1.0, "choices": []},
        "steps": {"default": 10, "meaning": "", "low": 1, "high": None, "choices": []},
        "loss": {
            "default": "l2",
            "meaning": "",
            "low": None,
            "high": None,
            "choices": ["l2", "l1"],
        },
        "prior": {"default": True, "meaning": "", "low": None, "high": None, "choices": []},
    }
    return registry.Entry("attack", "x", "", "", "", "", False, rules)


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
