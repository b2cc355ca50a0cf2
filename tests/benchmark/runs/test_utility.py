"""What a defense costs: the same update that is attacked trains the model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmark.errors import UserError
from benchmark.execution import trainer, worker
from benchmark.execution.client import make_client
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import (
    Assignment,
    ClientSettings,
    PrivateBatchFile,
    TrainJob,
    UpdateJob,
    Work,
)
from benchmark.execution.seeds import derive_seed
from benchmark.execution.trainer import Trainer
from benchmark.metrics.utility import Answers, measure
from benchmark.paths import ROOT
from benchmark.plugins import loading
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.registry import (
    all_tasks,
    get_suite,
    load_task,
    model_package,
    trained_as,
)
from benchmark.plugins.selection import choose
from benchmark.results.schema import Status, UtilityRecord
from benchmark.results.store import record_files
from benchmark.results.utility_summary import utility_costs
from benchmark.runs.plan import Selection
from benchmark.runs.utility_plan import SEEDS, Trial, make_trial, plan_utility
from benchmark.runs.utility_run import UtilityRun
from benchmark.spec import Batch, Client, Defense, Roles, Update
from benchmark.suites import Task, Training

Catalogues = tuple[Catalog, Catalog]
TINY = Training(
    rows=32, epochs=1, batch_size=8, learning_rate=1e-3, checks=2, validation_rows=8, test_rows=12
)
CPU = torch.device("cpu")


def tiny(name: str, **changes: Any) -> Task:
    return replace(all_tasks()[name], training=replace(TINY, **changes))


def open_client(task: Task) -> Client:
    side = load_task(task)
    room = model_package()
    model, _ = room.open_model(side.model_directory, task.objective, task.precision, CPU)
    return make_client(ClientSettings.of(task), model, CPU)


def defense(name: str, **parameters: Any) -> Defense:
    path = str(ROOT / f"submissions/defenses/{name}.py")
    return loading.make_defense([SubmissionCall(reference=path, parameters=parameters)])


# ------------------------------------------------------------------------------------ one update


class Watched:
    """Stands in for a defense, passes everything on and keeps what was asked and answered."""

    def __init__(self, inner: Defense) -> None:
        self.inner, self.calls = inner, []  # type: ignore[var-annotated]

    def shares(self, parameter: str, roles: Roles) -> bool:
        return self.inner.shares(parameter, roles)

    def client_update(self, client: Client, batch: Batch) -> Update:
        update = self.inner.client_update(client, batch)
        self.calls.append((batch, {name: t.clone() for name, t in update.tensors.items()}))
        return update


def test_training_and_snapshots_call_one_function_and_get_identical_tensors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Same state (the task's weights), same batch, same seed: the same bits, noise included."""
    task = tiny("mini/cola")
    side = load_task(task)
    watched = Watched(defense("dpsgd", noise_multiplier=0.3))
    monkeypatch.setattr(loading, "make_defense", lambda parts: watched)
    for name in ("inbox/data", "outbox"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "inbox/model").symlink_to(side.model_directory)
    for name in ("train", "validation"):
        batch = getattr(side.training_data, name)
        save_file(
            {k: v.contiguous() for k, v in vars(batch).items()}, tmp_path / "inbox/data" / name
        )
    assert task.training is not None
    client = ClientSettings.of(task)

    def execute(work: Work) -> None:
        assignment = Assignment(
            work=work, inbox=tmp_path / "inbox", outbox=tmp_path / "outbox", device="cpu",
            threads=torch.get_num_threads(), time_limit=60.0, memory_limit_mb=1e9,
        )  # fmt: skip
        worker.execute(assignment, lambda event: None)

    execute(TrainJob(client=client, defense=(), seed=77))
    assert len(watched.calls) == task.training.rounds
    batch, trained_with = watched.calls[0]
    save_file({k: v.contiguous() for k, v in vars(batch).items()}, tmp_path / "inbox/batch")
    seed = derive_seed("round", 77, 0)
    item = PrivateBatchFile(index=0, file="batch", seed=seed, out="update")
    execute(UpdateJob(client=client, defense=(), momentum=0.0, seed=1, batches=(item,)))
    assert len(watched.calls) == task.training.rounds + 1
    attacked = load_file(tmp_path / "outbox/update")
    assert attacked.keys() == trained_with.keys()
    for name, tensor in attacked.items():
        assert torch.equal(tensor, trained_with[name])


# -------------------------------------------------------------------------------------- training


def run(task: Task, used: Defense, seed: int = 0) -> tuple[Trainer, list[float]]:
    assert task.training is not None
    trainer = Trainer(used, open_client(task), task.training, task.mode, seed)
    data = load_task(task).training_data
    return trainer, trainer.run(data.train, data.validation, lambda event: None)


def weights(client: Client) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in client.model.named_parameters()}


def test_training_moves_what_is_shared_and_nothing_else() -> None:
    task = tiny("mini/wikitext-pretrained")
    before = weights(open_client(task))
    trainer, curve = run(task, defense("freeze_embeddings"))
    after = weights(trainer.client)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == set(before) - {"transformer.wte.weight"}
    assert trainer.rounds == 4
    assert len(curve) == 3
    assert curve[-1] < curve[0]
    assert trainer.bytes_up / trainer.rounds < sum(t.numel() for t in before.values()) * 4


def test_the_same_seed_trains_the_same_model() -> None:
    task = tiny("mini/cola")
    first, again, other = (run(task, defense("gaussian_noise"), seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_early_stopping_keeps_the_weights_from_before_the_loss_rose() -> None:
    task = tiny("mini/wikitext-pretrained", learning_rate=3.0, early_stopping=True)
    before = weights(open_client(task))
    trainer, curve = run(task, defense("none"))
    assert trainer.rounds == 2
    assert curve[1] > curve[0]
    assert all(torch.equal(before[n], w) for n, w in weights(trainer.client).items())


def test_a_weight_difference_trains_like_the_gradient_it_stands_for() -> None:
    """Local steps too small to matter are one large batch."""
    gradient = tiny("mini/cola")
    difference = replace(tiny("mini/cola-fedavg"), learning_rate=1e-7)
    one, many = (run(task, defense("none"))[1] for task in (gradient, difference))
    assert many == pytest.approx(one, rel=1e-2)


# --------------------------------------------------------------------------------- through records


class Quiet:
    def ended(self, cell: Trial, record: UtilityRecord) -> None: ...


def trials(task: Task, name: str, catalogs: Catalogues, results: Path) -> list[Trial]:
    (chosen,) = choose(catalogs[1], "defense", name)
    side = load_task(task)
    return [make_trial(Selection("mini"), side, chosen, seed, results) for seed in (0, 1)]


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("mini/wikitext-pretrained", {"perplexity"}),
        ("mini/sst2", {"accuracy"}),
        ("mini/iwslt-finetuned", {"loss", "bleu"}),
    ],
)
def test_a_price_is_recorded_once_with_its_costs(
    engine: LocalEngine, catalogs: Catalogues, tmp_path: Path, name: str, metrics: set[str]
) -> None:
    planned = trials(tiny(name), "prune[ratio=0.9]", catalogs, tmp_path)
    done = UtilityRun(engine, Quiet(), 120.0, 8000.0).run(planned)
    for record in done:
        assert record.status is Status.OK, record.reason
        assert record.metrics.keys() == metrics
        assert record.rounds == TINY.rounds
        assert record.step_seconds is not None
        assert record.step_seconds > 0
    assert [t.cached for t in trials(tiny(name), "prune[ratio=0.9]", catalogs, tmp_path)] == [
        True, True,
    ]  # fmt: skip
    changed = trials(tiny(name, rows=40), "prune[ratio=0.9]", catalogs, tmp_path)
    assert not any(trial.cached for trial in changed)
    (cost,) = utility_costs(tmp_path).values()
    assert (cost.task, cost.defense) == (name, "prune[ratio=0.9]")
    assert cost.metrics.keys() == metrics | {"step_seconds", "bytes_up"}
    assert all(value.n == 2 for value in cost.metrics.values())
    assert list(record_files(tmp_path)) == []


class Listening:
    """An engine that only keeps what it is asked to do."""

    devices, threads = ("cpu",), 1

    def run(self, jobs: Any, finished: Any) -> None:
        self.jobs = list(jobs)


def test_a_defense_never_sees_what_its_model_is_tested_with(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    engine: Any = Listening()
    UtilityRun(engine, Quiet(), 1.0, 1.0).run(trials(tiny("mini/cola"), "none", catalogs, tmp_path))
    for job in engine.jobs:
        assert job.files.keys() == {"model", "data/train", "data/validation"}
        assert not job.files["data/train"].exists()  # the staging are gone once the run is over


def test_what_cannot_be_trained_is_recorded_with_its_reason(
    engine: LocalEngine, catalogs: Catalogues, tmp_path: Path
) -> None:
    for name, status, reason in (
        ("incapable", Status.UNSUPPORTED, "this model has layers that it cannot treat"),
        ("poison", Status.INVALID, "NaN or infinite"),
    ):
        planned = trials(tiny("mini/cola"), name, catalogs, tmp_path)
        record = UtilityRun(engine, Quiet(), 120.0, 8000.0).run(planned[:1])[0]
        assert record.status is status
        assert reason in record.reason
    assert utility_costs(tmp_path)["mini/cola", "poison"].metrics == {}


def test_the_plan_prices_alike_tasks_once(catalogs: Catalogues, tmp_path: Path) -> None:
    planned = plan_utility(Selection("mini", "cola*", None, "none"), catalogs[1], tmp_path)
    assert len(planned) == SEEDS * len({trial.task.name for trial in planned})
    assert "mini/cola-b4" not in {trial.task.name for trial in planned}
    tasks = all_tasks()
    assert trained_as(tasks["mini/cola-b4"]).name == "mini/cola"
    assert trained_as(tasks["mini/cola-float64"]).name == "mini/cola-float64"
    assert trained_as(tasks["mini/agnews-fl-b1-last"]).name == "mini/agnews-fl"


def test_every_other_task_of_mini_has_a_price() -> None:
    for task in get_suite("mini").tasks:
        assert (task.training is None) == (task.family == "federated")
        assert (task.federation is None) == (task.family != "federated")
        assert task.utility


def test_training_validation_and_test_share_no_text() -> None:
    data = load_task(all_tasks()["mini/cola"]).training_data
    rows = [
        {tuple(row) for row in part.input_ids.tolist()} for part in (data.validation, data.test)
    ]
    trained = {tuple(row) for row in data.train.input_ids.tolist()}
    width = data.train.input_ids.shape[1]
    for held_out in rows:
        padded = {(*row, *[0] * (width - len(row))) for row in held_out}
        assert not padded & trained


# --------------------------------------------------------------------------------------- metrics


def test_utility_metrics_by_hand() -> None:
    answers = Answers(
        losses=[1.0, 2.0], tokens=[3, 1], predicted=[1, 1, 0, 0], labels=[1, 0, 0, 0],
        texts=["the cat sat on the mat"], references=["the cat sat on the mat"],
    )  # fmt: skip
    found = measure(("perplexity", "loss", "accuracy", "mcc", "bleu"), answers)
    assert found["loss"] == pytest.approx(1.25)
    assert found["perplexity"] == pytest.approx(math.exp(1.25))
    assert found["accuracy"] == 0.75
    assert found["mcc"] == pytest.approx((1 * 2 - 1 * 0) / math.sqrt(2 * 1 * 3 * 2))
    assert found["bleu"] == pytest.approx(100.0)
    assert measure(("mcc",), replace(answers, predicted=[1] * 4))["mcc"] == 0.0
    with pytest.raises(UserError, match="no way to measure"):
        measure(("charm",), answers)
    with pytest.raises(ValueError, match="diverged"):
        measure(("perplexity",), replace(answers, losses=[1e4, 1e4]))


def test_rows_are_cut_to_the_longest_of_them() -> None:
    batch = Batch(torch.arange(12).view(2, 6), torch.tensor([[1] * 6, [1] * 2 + [0] * 4]),
                  torch.tensor([[1] * 6, [1, 2, -100, -100, -100, -100]]))  # fmt: skip
    short = trainer.take(batch, torch.tensor([1]))
    assert short.input_ids.tolist() == [[6, 7]]
    assert short.labels.tolist() == [[1, 2]]
