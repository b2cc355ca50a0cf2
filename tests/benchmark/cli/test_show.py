"""`show`: a ranking for each task that fits 80 columns, and the same data for programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from benchmark.cli.show import matching, utility_lines
from benchmark.errors import UserError
from benchmark.files import Parameters
from benchmark.results.schema import MetricValue, Status
from benchmark.results.utility_summary import UtilityCost
from tests.conftest import Command
from tests.leaderboard.samples import (
    ATTACKS,
    make_record,
    make_score,
    make_snapshots,
    store,
    write_sample_results,
)

LONG: Parameters = {
    "initial_candidates": 30,
    "learning_rate": 0.05,
    "discrete_candidates": 50,
    "steps": 400,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_sample_results(folder)
    store(folder, make_record("mini/cola-b1", "lamp", attack_parameters=LONG), make_score())
    store(folder, make_record("mini/cut", "lamp", snapshots=make_snapshots(cut=3)), make_score())
    return folder


def test_rankings_fit_80_columns_and_no_name_is_broken(leakboard: Command, results: Path) -> None:
    done = leakboard("show", "--results", results)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 and line.isprintable() for line in done.stdout.splitlines())
    assert "steps=400]" in done.stdout
    board = done.stdout.split("\n\n")[0].splitlines()
    assert board[0] == "mini/cola-b1, no defense, seed 0"
    assert board[1].split() == ["by", "ROUGE-L", "mean", "baseline", "interval", "seconds"]
    assert board[2].split()[:2] in (["1", "dager"], ["=1", "dager"])
    words = set(done.stdout.split())
    assert {name for name, _ in ATTACKS} <= words


def test_names_choose_what_is_shown(leakboard: Command, results: Path) -> None:
    one = leakboard("show", "--results", results, "--task", "sst2-b2", "--defense", "dpsgd*")
    heads = [line for line in one.stdout.splitlines() if line.startswith("mini/")]
    assert len(heads) == 1
    assert heads[0].startswith("mini/sst2-b2, under dpsgd[")
    wrong = leakboard("show", "--results", results, "--task", "sst2-b3")
    assert wrong.returncode == 2
    assert "did you mean sst2-b2" in wrong.stderr


def test_what_the_time_limit_has_cut_is_said(leakboard: Command, results: Path) -> None:
    shown = leakboard("show", "--results", results)
    lines = [line.strip() for line in shown.stdout.splitlines() if "cut by the time limit" in line]
    assert lines == ["lamp: 3 snapshots cut by the time limit"]
    data = json.loads(leakboard("show", "--results", results, "--json", "--task", "cut").stdout)
    assert [row["stopped_by_clock"] for row in data] == [3]


def test_programs_get_everything(leakboard: Command, results: Path) -> None:
    shown = leakboard("show", "--results", results, "--csv", "--attack", "dager")
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    data = json.loads(leakboard("show", "--results", results, "--json", "--attack", "dager").stdout)
    assert len(rows) == len(data) > 0
    assert {row["attack"] for row in rows} == {"dager"}
    assert [row["task"] for row in rows] == [row["task"] for row in data]
    both = leakboard("show", "--results", results, "--json", "--csv")
    assert both.returncode == 2


def test_the_best_baseline_stands_beside_each_value(leakboard: Command, results: Path) -> None:
    shown = leakboard("show", "--results", results, "--task", "sst2-b2", "--defense", "none")
    lines = [line.split() for line in shown.stdout.splitlines()]
    dager, guess = (
        next(line for line in lines if line[1:2] == [name]) for name in ("dager", "prior_only")
    )
    assert dager[3] == guess[2], "prior_only guesses better than random"
    assert "Holm's correction" in " ".join(shown.stdout.split())
    data = json.loads(leakboard("show", "--results", results, "--json", "--task", "sst2-b2").stdout)
    plain = {row["attack"]: row for row in data if row["defense"] == "none"}
    best = plain["prior_only"]["metrics"]["exact_match"]["mean"]
    assert plain["dager"]["metrics"]["exact_match"]["baseline"] == best
    assert (plain["dager"]["baseline"], plain["random"]["baseline"]) == (False, True)


def test_another_metric_may_rank(leakboard: Command, results: Path) -> None:
    shown = leakboard("show", "--results", results, "--task", "sst2-b2", "--metric", "nerr")
    assert "by NERR" in shown.stdout
    assert "by ROUGE-L" not in shown.stdout
    for wrong in ("nerrr", "rouge1_with_specials", "seconds"):
        refused = leakboard("show", "--results", results, "--metric", wrong)
        assert refused.returncode == 2
        assert "recovery metric" in refused.stderr


def test_seeds_are_boards_of_their_own(leakboard: Command, results: Path) -> None:
    shown = leakboard("show", "--results", results, "--task", "cola-b4", "--defense", "none")
    heads = [line for line in shown.stdout.splitlines() if line.startswith("mini/")]
    assert heads == ["mini/cola-b4, no defense, seed 0", "mini/cola-b4, no defense, seed 1"]


def cost(defense: str, **means: float) -> UtilityCost:
    values = {
        name: MetricValue(mean=mean, low=mean - 0.1, high=mean + 0.1, n=3, values=[mean] * 3)
        for name, mean in means.items()
    }
    status = Status.OK if means else Status.ERROR
    return UtilityCost("mini/x", defense, values, None, status, "" if means else "it broke")


def test_what_defenses_cost_is_ordered_by_what_is_better() -> None:
    costs = [cost("a", perplexity=9.0, mcc=0.1), cost("b", perplexity=7.0, mcc=0.2), cost("c")]
    lines = list(utility_lines(costs))
    assert [line.split()[0] for line in lines] == ["mini/x", "by", "b", "a", "by", "b", "a", "c"]
    assert "error: it broke" in lines[-1]


def test_a_single_training_has_no_interval() -> None:
    single = MetricValue(mean=0.2, low=0.2, high=0.2, n=1, values=[0.2])
    known = UtilityCost("mini/x", "a", {"mcc": single}, None, Status.OK, "")
    (line,) = [line for line in utility_lines([known]) if "0.200" in line]
    assert line.split() == ["a", "0.200", "n", "=", "1"]


def test_a_name_in_brackets_is_no_glob() -> None:
    names = ["lamp[steps=4]", "lamps"]
    assert matching(names, {"attack": "lamp[steps=4]"}, lambda name, _: name) == names[:1]
    with pytest.raises(UserError, match="did you mean lamps"):
        matching(names, {"attack": "lampes"}, lambda name, _: name)
