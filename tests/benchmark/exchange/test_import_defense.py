"""A defense travels with its trainings, central and federated; a crafted training is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark.plugins import registry
from benchmark.results.utility_summary import utility_costs
from benchmark.suites import Pairing, Suite, Training
from tests.benchmark.exchange.conftest import SNAPSHOTS, Published
from tests.benchmark.runs.federated_setup import SMALL
from tests.in_process import leakboard

LITTLE = Training(
    rows=16, epochs=1, batch_size=8, learning_rate=1e-3, checks=1, validation_rows=8, test_rows=12
)
FEDERATION = replace(SMALL, clients=4, sampled=2, rounds=1, test_rows=16)
TRAINED = ("mini/cola", "mini/agnews-fl")
SEEDS = 3
CELLS = 1


def small(suite: Suite) -> Suite:
    """The suite with one attack on a defense and two small trainings, one of them federated."""
    tasks = tuple(
        replace(
            task,
            snapshots=SNAPSHOTS,
            training=task.training and LITTLE,
            federation=task.federation and FEDERATION,
        )
        for task in suite.tasks
    )
    utility = tuple(Pairing(name.partition("/")[2], defense="prune") for name in TRAINED)
    return replace(suite, tasks=tasks, plan=(Pairing("cola", "random", "prune"),), utility=utility)


@pytest.fixture(scope="module")
def defended(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """`new` and `submit` for a defense in a folder of its own."""
    folder = tmp_path_factory.mktemp("defender")
    suites, broken = registry.find_suites()
    smaller = {**suites, "mini": small(suites["mini"])}
    made = Published(folder / "own_cut.py", folder / "results", folder / "package.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "find_suites", lambda: (smaller, broken))
        patch.setenv("LEAKBOARD_SUBMISSIONS", "")
        written = leakboard("new", "defense", "own_cut", "--dir", folder)
        assert written.code == 0, written.err
        patch.setenv("LEAKBOARD_SUBMISSIONS", str(made.source))
        packed = leakboard(
            "submit", "own_cut", "--results", made.results, "--out", made.package, "--jobs", 1
        )
        assert packed.code == 0, packed.err
        yield made


def test_trainings_arrive_as_they_were_packed(defended: Published, tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = leakboard("import", defended.package, "--results", results)
    assert done.code == 0, done.err
    count = CELLS + SEEDS * len(TRAINED)
    assert f"{count} records of own_cut" in done.out
    sent = {p.relative_to(defended.results): p for p in defended.results.rglob("*.json")}
    taken = {p.relative_to(results): p for p in results.rglob("*.json")}
    assert (len(taken), taken.keys()) == (count, sent.keys())
    assert all(taken[name].read_bytes() == sent[name].read_bytes() for name in taken)
    costs = utility_costs(results)
    assert costs.keys() == {(name, "own_cut") for name in TRAINED}
    assert all(value.n == SEEDS for cost in costs.values() for value in cost.metrics.values())


def test_a_cluster_is_told_what_to_train(defended: Published, tmp_path: Path) -> None:
    done = leakboard("submit", "own_cut", "--plan-only", "--results", tmp_path / "r")
    commands = [line for line in done.out.splitlines() if "leakboard run" in line]
    assert len(commands) == CELLS + len(TRAINED)
    assert sum("--utility --defense own_cut" in line for line in commands) == len(TRAINED)


# ---------------------------------------------------------------------------------------- crafted

Crafted = dict[str, Any]
Change = Callable[[Crafted], None]


def of_task(package: Crafted, task: str) -> Crafted:
    """The first training of a task."""
    found: Crafted = next(record for record in package["utility"] if record["task"] == task)
    return found


def central(**changes: object) -> Change:
    return lambda package: of_task(package, TRAINED[0]).update(changes)


def federated(**changes: object) -> Change:
    return lambda package: of_task(package, TRAINED[1])["federated"].update(changes)


def first_round(**changes: object) -> Change:
    return lambda package: of_task(package, TRAINED[1])["federated"]["rounds"][0].update(changes)


def metric(**values: float) -> Change:
    return lambda package: of_task(package, TRAINED[0])["metrics"].update(values)


def provenance(**changes: object) -> Change:
    return lambda package: of_task(package, TRAINED[0])["provenance"].update(changes)


def shortened(package: Crafted) -> None:
    package["utility"].pop()


CRAFTED: dict[str, tuple[Change, str]] = {
    "NaN": (metric(mcc=float("nan")), "finite number"),
    "impossible metric": (metric(mcc=7.0), "its mcc of 7 is beyond what can be measured"),
    "unknown metric": (metric(charm=1.0), "there is no utility metric 'charm'"),
    "no metric": (central(metrics={}), "it is ok although its mcc is missing"),
    "huge loss": (central(validation=[1e300]), "a validation loss of 1e+300 is beyond"),
    "too many losses": (central(validation=[1.0] * 9), "9 validation losses, more than 2"),
    "too many rounds": (central(rounds=10**9), "it took 1000000000 rounds of 2"),
    "no rounds": (central(rounds=None), "it took None rounds of 2"),
    "forged defense": (provenance(defense_digest="0" * 64), "its defense had other code"),
    "forged version": (provenance(fingerprint="0" * 64), "another version of the task"),
    "path traversal": (central(task="../../x"), "../../x · own_cut · (utility) · 100 is no cell"),
    "tuning seed": (central(seed=3), "own_cut · (utility) · 3 is no cell"),
    "clients of nobody": (central(federated={}), "it tells of clients, and mini/cola is not"),
    "impossible accuracy": (first_round(accuracy=1e9), "an accuracy is not between 0 and 1"),
    "round out of order": (first_round(round=2), "rounds are not there once each, in order"),
    "too many clients": (first_round(answered=10**9), "has not the 2 clients that are asked"),
    "too few accuracies": (federated(global_accuracies=[1.0]), "for each of the 4 clients"),
    "other labels": (federated(label_counts=[[1]]), "its clients hold other labels than here"),
    "control characters": (federated(failures={"\x1b[2J": 1}), "cannot be printed"),
    "a training missing": (shortened, "of the official plan is missing"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_training_is_refused(name: str, defended: Published, tmp_path: Path) -> None:
    change, sentence = CRAFTED[name]
    package = json.loads(defended.package.read_text())
    change(package)
    file = tmp_path / "crafted.json"
    file.write_text(json.dumps(package))
    done = leakboard("import", file, "--results", tmp_path / "results")
    assert done.code == 2
    assert sentence in " ".join(done.err.split()), done.err
    assert done.err.splitlines()[-1].startswith("leakboard: ")
    assert set(tmp_path.iterdir()) == {file}
