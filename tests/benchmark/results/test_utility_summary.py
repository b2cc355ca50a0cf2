"""Utility is compared over the same training seeds, of the newest version of a task."""

from __future__ import annotations

from pathlib import Path

from benchmark.files import read_model, write_model
from benchmark.results.schema import Status, UtilityRecord
from benchmark.results.store import utility_path
from benchmark.results.utility_summary import utility_costs

STORED = Path(__file__).parent / "stored" / "utility-v1.json"


def train(results: Path, defense: str, seed: int, mcc: float, **changes: object) -> None:
    record = read_model(STORED, UtilityRecord).model_copy(
        update={"defense": defense, "seed": seed, "metrics": {"mcc": mcc}} | changes
    )
    write_model(utility_path(results, record.task, defense, seed), record)


def test_every_defense_is_summed_up_over_the_seeds_of_the_undefended(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        train(tmp_path, "none", seed, 0.5 + seed / 10)
        train(tmp_path, "prune", seed, 0.3)
    train(tmp_path, "prune", 100, 0.9)
    train(tmp_path, "mask", 0, 0.9)
    costs = {defense: cost for (_, defense), cost in utility_costs(tmp_path).items()}
    assert costs["none"].seeds == costs["prune"].seeds == (0, 1, 2)
    assert costs["prune"].metrics["mcc"].values == [0.3] * 3, "seed 100 has no counterpart"
    assert costs["mask"].metrics == {}
    assert "seeds 0" in costs["mask"].reason
    assert "1, 2 are missing" in costs["mask"].reason


def test_without_an_undefended_training_the_commonest_seeds_count(tmp_path: Path) -> None:
    for seed in (5, 6):
        train(tmp_path, "prune", seed, 0.3)
        train(tmp_path, "mask", seed, 0.2)
    train(tmp_path, "dpsgd", 7, 0.1)
    costs = utility_costs(tmp_path)
    assert costs["mini/cola", "mask"].seeds == (5, 6)
    assert costs["mini/cola", "dpsgd"].metrics == {}


def test_a_failure_of_a_seed_that_counts_is_named(tmp_path: Path) -> None:
    train(tmp_path, "none", 0, 0.5)
    train(tmp_path, "prune", 0, 0.5, status=Status.ERROR, reason="it broke")
    train(tmp_path, "mask", 0, 0.4)
    train(tmp_path, "mask", 9, 0.4, status=Status.ERROR, reason="another seed")
    costs = utility_costs(tmp_path)
    assert (costs["mini/cola", "prune"].status, costs["mini/cola", "prune"].reason) == (
        Status.ERROR,
        "it broke",
    )
    assert costs["mini/cola", "mask"].metrics["mcc"].values == [0.4]


def test_versions_of_a_task_are_not_mixed(tmp_path: Path) -> None:
    train(tmp_path, "none", 0, 0.5, task_version=2)
    train(tmp_path, "prune", 0, 0.9, task_version=1)
    assert list(utility_costs(tmp_path)) == [("mini/cola", "none")]
