"""Defenses by name: in combination, out of range, and unable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmark.errors import UserError
from benchmark.execution.client import make_client, one_update
from benchmark.execution.jobs import ClientSettings
from benchmark.execution.randomness import fill
from benchmark.execution.seeds import derive_seed
from benchmark.files import read_model
from benchmark.paths import ROOT
from benchmark.plugins import loading
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.plugins.selection import choose
from benchmark.results import scoring
from benchmark.results.schema import Record, Status
from benchmark.results.store import cell_path
from tests.harness import RunCells

Catalogues = tuple[Catalog, Catalog]
BOTH = "prune[ratio=0.9]+gaussian_noise[sigma=0.001]"


def test_a_combination_keeps_the_parameters_of_its_parts(catalogs: Catalogues) -> None:
    (chosen,) = choose(catalogs[1], "defense", BOTH)
    assert chosen.name == BOTH
    assert chosen.entry.name == "prune+gaussian_noise"
    assert chosen.parameters == {"prune.ratio": 0.9, "gaussian_noise.sigma": 0.001}
    assert [call.parameters for call in chosen.calls()] == [{"ratio": 0.9}, {"sigma": 0.001}]
    (plain,) = choose(catalogs[1], "defense", "prune[ratio=0.99]+mask")
    assert plain.name == "prune+mask"
    assert plain.entry.digest != chosen.entry.digest
    many = choose(catalogs[1], "defense", "freeze_*+mask")
    assert [c.name for c in many] == [
        "freeze_both+mask", "freeze_embeddings+mask", "freeze_output+mask",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("prune+prune", "prune occurs twice"),
        ("dpsgd+incapable", "each compute the gradient in a way of their own"),
        ("prune+gausian_noise", "did you mean gaussian_noise"),
        ("prune[ratio=1.5]", "ratio=1.5 is out of range; it must lie between 0.0 and 1.0"),
        ("freeze_both+gaussian_noise[sigma=-0.1]", "sigma=-0.1 is out of range"),
        ("dpsgd[clip=0]", "clip=0 is out of range"),
        ("mask[ratio=nan]", "ratio=nan is out of range"),
        ("prune[scope=layer]", "is not one of tensor, update"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    catalogs: Catalogues, pattern: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        choose(catalogs[1], "defense", pattern)
    assert "\n" not in str(caught.value)


def test_a_combination_does_what_its_parts_do_one_after_the_other() -> None:
    task = all_tasks()["mini/cola-b4"]
    side, device = load_task(task), torch.device("cpu")
    model, _ = model_package().open_model(side.model_directory, task.objective, "float32", device)
    client = make_client(ClientSettings.of(replace(task, training=None)), model, device)
    batch = side.private_batch(0, 0).batch
    parts = [
        SubmissionCall(
            reference=str(ROOT / f"submissions/defenses/{name}.py"), parameters=dict(values)
        )
        for name, values in (
            ("freeze_embeddings", {}),
            ("dpsgd", {"noise_multiplier": 0.1}),
            ("prune", {"ratio": 0.9}),
            ("gaussian_noise", {"sigma": 0.5}),
        )
    ]
    made = one_update(loading.make_defense(parts), client, batch, seed=5)
    freeze, private, prune, noise = (loading.make_defense([part]) for part in parts)
    fill(client.generator, derive_seed("generator", 5))
    shared = [n for n, _ in model.named_parameters() if freeze.shares(n, client.roles)]
    expected = private.local_update(client, batch, shared)
    expected = noise.transform(prune.transform(expected, client.generator), client.generator)
    assert list(made.tensors) == shared
    for name in shared:
        assert torch.equal(made.tensors[name], expected.tensors[name])
    assert made.noise_scale == pytest.approx((0.5**2 + (0.1 / 4) ** 2) ** 0.5)


def test_a_combination_is_run_stored_and_scored_like_any_other(
    run_cells: RunCells, tmp_path: Path
) -> None:
    defense = "freeze_output+prune[ratio=0.9]"
    (record,) = run_cells("bag_of_words", task="mini/cola", defense=defense, results=tmp_path)
    assert record.status is Status.OK
    assert record.defense_name == defense
    path = cell_path(tmp_path, "mini/cola", defense, "bag_of_words", 0)
    assert read_model(path, Record) == record
    assert [item.outcome for item in scoring.score_all(tmp_path)] == ["scored"]
    assert run_cells("bag_of_words", task="mini/cola", defense=defense, results=tmp_path) == []


def test_what_a_defense_cannot_do_is_unsupported_with_its_reason(run_cells: RunCells) -> None:
    (record,) = run_cells("random", task="mini/cola", defense="incapable")
    assert record.status is Status.UNSUPPORTED
    assert record.reason == "this model has layers that it cannot treat"
