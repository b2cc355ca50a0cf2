"""Two attacks against each other: in pairs where they saw the same snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.results.versus import ALL, Side, meetings
from tests.conftest import Command
from tests.leaderboard.samples import make_record, make_score, store

LEVEL = [0.1, 0.3, 0.5, 0.7, 0.9, 0.2, 0.4, 0.6]


def put(
    results: Path, attack: str, shift: float, *, task: str = "s/a", defense: str = "none",
    seed: int = 0, truths: str = "",
) -> None:  # fmt: skip
    score = make_score({"rougeL": [x + shift for x in LEVEL]})
    record = make_record(task, attack, defense, seed=seed)
    store(results, record, score.model_copy(update={"truths": truths}))


def test_the_same_snapshots_are_compared_in_pairs(tmp_path: Path) -> None:
    put(tmp_path, "lamp", 0.05)
    put(tmp_path, "tag", 0.0)
    (met,) = meetings(tmp_path, Side("lamp"), Side("tag"), "rougeL")
    assert met.paired
    assert (met.n, met.p_value, met.seed) == (8, 2 / 256, 0)
    assert met.difference == pytest.approx(0.05)


def test_seeds_meet_one_by_one_and_all_together(tmp_path: Path) -> None:
    for seed in (100, 101, 102):
        put(tmp_path, "lamp", 0.05, seed=seed)
        put(tmp_path, "tag", 0.0, seed=seed)
    put(tmp_path, "lamp", 0.1, seed=103)  # tag was not run there
    *each, whole = meetings(tmp_path, Side("lamp"), Side("tag"), "rougeL")
    assert [met.seed for met in each] == [100, 101, 102]
    assert all(met.adjusted == pytest.approx(3 * 2 / 256) for met in each)
    assert (whole.first_task, whole.seed, whole.n) == (ALL, None, 24)
    assert whole.p_value == 2.0**-23


def test_one_attack_in_two_places(tmp_path: Path) -> None:
    put(tmp_path, "film", 0.0, truths="t")
    put(tmp_path, "film", -0.1, task="s/b")
    put(tmp_path, "film", -0.1, defense="prune", truths="t")
    (tasks,) = meetings(tmp_path, Side.parse("film@a"), Side.parse("film@s/b"), "rougeL")
    assert not tasks.paired
    assert 0.3 < tasks.p_value < 0.8, "the snapshots differ more than the tasks"
    (under,) = meetings(tmp_path, Side.parse("film@a"), Side.parse("film@a@prune"), "rougeL")
    assert under.paired, "the same private text"
    assert under.p_value == 2 / 256


@pytest.mark.parametrize("wrong", ["a@b@c@d", "@b", "a@"])
def test_a_side_has_a_form(wrong: str) -> None:
    with pytest.raises(UserError, match="attack@task@defense"):
        Side.parse(wrong)


def test_the_command_tells_which_is_better(leakboard: Command, tmp_path: Path) -> None:
    for task in ("s/a", "s/b"):
        put(tmp_path, "lamp", 0.05, task=task)
        put(tmp_path, "tag", 0.0, task=task)
    done = leakboard("compare", "lamp", "tag", "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    words = [line.split() for line in done.stdout.splitlines()]
    assert words[2] == ["s/a", "0", "8", "0.513", "0.463", "+0.050", "0.0078", "0.016"]
    assert words[4][:4] == ["all", "together", "16", "0.513"]
    rows = json.loads(leakboard("compare", "lamp", "tag", "--results", tmp_path, "--json").stdout)
    assert [row["paired"] for row in rows] == [True] * 3
    nobody = leakboard("compare", "lamp", "nobody", "--results", tmp_path)
    assert nobody.returncode == 2
    assert "no scored result" in nobody.stderr
