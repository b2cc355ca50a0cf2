"""The defenses one by one: what they change, what they withhold, and what they promise."""

from __future__ import annotations

import math

import pytest
import torch
from opacus.accountants import RDPAccountant

from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.results.schema import Status
from benchmark.spec import Batch, Client, Role, Unsupported, Update
from benchmark.suites import Training
from submissions.blocks.dp.per_sample import clipped_sum, sample_gradients
from submissions.defenses.dpsgd import DPSGD
from submissions.defenses.freeze_both import FreezeBoth
from submissions.defenses.freeze_embeddings import FreezeEmbeddings
from submissions.defenses.freeze_output import FreezeOutput
from submissions.defenses.gaussian_noise import GaussianNoise
from submissions.defenses.mask import Mask
from submissions.defenses.none import NoDefense
from submissions.defenses.prune import Prune
from tests.harness import RunCells
from tests.submissions.test_baselines import means

BUDGET = Training(rows=960, epochs=2, batch_size=16, learning_rate=1e-3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def client(task: str, samples: int = 4, **settings: object) -> tuple[Client, Batch]:
    """A client of a task with sentences of unequal lengths."""
    side = load_task(all_tasks()[task])
    room = model_package()
    wanted = side.task
    model, _ = room.open_model(
        side.model_directory, wanted.objective, wanted.precision, torch.device("cpu")
    )
    rows = side.training_data.train if wanted.training else side.private_batch(0, 0).batch
    columns = (rows.input_ids, rows.attention_mask, rows.labels)
    batch = Batch(*(column[:samples] for column in columns))
    made = Client(model, room.objective(wanted.objective), room.roles(model),
                  seeded(), **settings)  # type: ignore[arg-type]  # fmt: skip
    return made, batch


def names(made: Client) -> list[str]:
    return [name for name, _ in made.model.named_parameters()]


# ------------------------------------------------------------------------------ changing entries


def test_pruning_keeps_the_largest_entries_of_the_update_or_of_each_tensor() -> None:
    update = Update({"a": torch.arange(1.0, 91.0), "b": -torch.arange(0.01, 0.11, 0.01)})
    whole = Prune(ratio=0.9, scope="update").transform(update, seeded()).tensors
    assert whole["a"].nonzero().flatten().tolist() == list(range(80, 90))
    assert not whole["b"].any()
    each = Prune(ratio=0.9).transform(update, seeded()).tensors
    assert each["a"].count_nonzero() == 9
    assert each["b"].nonzero().flatten().tolist() == [9]
    assert torch.equal(each["a"][81:], update.tensors["a"][81:])


def test_pruning_everything_leaves_one_entry_and_nothing_leaves_all() -> None:
    update = Update({"a": torch.randn(50, generator=seeded())})
    assert Prune(ratio=1.0).transform(update, seeded()).tensors["a"].count_nonzero() == 1
    assert torch.equal(
        Prune(ratio=0.0).transform(update, seeded()).tensors["a"], update.tensors["a"]
    )


def test_masking_drops_a_share_at_random_and_repeats_itself() -> None:
    update = Update({"a": torch.ones(20_000)})
    first, again, other = (Mask(ratio=0.3).transform(update, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first.tensors["a"], again.tensors["a"])
    assert not torch.equal(first.tensors["a"], other.tensors["a"])
    assert first.tensors["a"].mean().item() == pytest.approx(0.7, abs=0.02)


def test_noise_has_the_scale_that_the_update_states() -> None:
    update = Update({"a": torch.zeros(50_000)})
    noisy = GaussianNoise(sigma=0.02).transform(update, seeded())
    assert noisy.noise_scale == 0.02
    assert noisy.tensors["a"].std().item() == pytest.approx(0.02, rel=0.02)
    twice = GaussianNoise(sigma=0.02).transform(noisy, seeded(1))
    assert twice.noise_scale == pytest.approx(0.02 * math.sqrt(2))


# -------------------------------------------------------------------------------------- freezing


@pytest.mark.parametrize("task", ["mini/wikitext", "mini/wikitext-tied", "mini/iwslt", "mini/cola"])
def test_freezing_withholds_the_roles_and_nothing_else(task: str) -> None:
    made, _ = client(task, samples=1)
    roles, every = made.roles, set(names(made))
    kept = {
        kind: {n for n in every if kind().shares(n, roles)}
        for kind in (FreezeEmbeddings, FreezeOutput, FreezeBoth)
    }
    words, output = roles.names[Role.WORD_EMBEDDING], roles.names[Role.OUTPUT]
    assert words not in kept[FreezeEmbeddings]
    assert output not in kept[FreezeOutput]
    assert kept[FreezeBoth] == kept[FreezeEmbeddings] & kept[FreezeOutput]
    withheld = every - kept[FreezeBoth]
    expected = {words, output}
    expected |= {"classifier.bias"} if task == "mini/cola" else set()
    expected |= {"model.encoder.embed_tokens.weight"} if task == "mini/iwslt" else set()
    assert withheld == expected


# ---------------------------------------------------------------------------------------- DP-SGD


@pytest.mark.parametrize(
    "task",
    [
        *("mini/wikitext", "mini/wikitext-tied", "mini/cola", "mini/iwslt"),
        *("mini/sst2-fl", "mini/sst2-fl-distilbert"),
    ],
)
def test_gradients_of_samples_agree_with_a_loop_over_them(task: str) -> None:
    """On every kind of model: tied embeddings, Conv1D, a recurrence, a shared start token."""
    made, batch = client(task)
    (together,) = list(sample_gradients(made, batch, names(made)))
    for index in range(len(batch.labels)):
        row = slice(index, index + 1)
        one = Batch(batch.input_ids[row], batch.attention_mask[row], batch.labels[row])
        for name, value in made.gradient(one).items():
            torch.testing.assert_close(together[name][index], value, rtol=0, atol=1e-5)
    assert not any(module.training for module in made.model.modules())
    assert all(p.requires_grad and p.grad is None for p in made.model.parameters())
    assert torch.equal(made.gradient(batch)[names(made)[0]], made.gradient(batch)[names(made)[0]])


class Turned(torch.nn.Module):
    """A layer that sees the whole batch as one sample."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(hidden[None])[0]
        return found


def test_samples_that_a_layer_mixes_are_taken_one_by_one() -> None:
    made, batch = client("mini/cola")
    plain = clipped_sum(made, batch, names(made), 0.1)
    made.model.classifier = Turned(made.model.get_submodule("classifier"))
    found = clipped_sum(made, batch, names(made), 0.1)
    assert len(list(sample_gradients(made, batch, names(made)))) == len(batch.labels)
    for name, value in plain.items():
        torch.testing.assert_close(
            found[name.replace("classifier.", "classifier.layer.")], value, rtol=0, atol=1e-6
        )
    assert all(parameter.grad is None for parameter in made.model.parameters())


def test_without_noise_and_bound_it_is_the_plain_gradient() -> None:
    made, batch = client("mini/cola")
    private = DPSGD(noise_multiplier=0.0, clip=1e6).client_update(made, batch)
    plain = NoDefense().client_update(made, batch)
    for name, value in plain.tensors.items():
        torch.testing.assert_close(private.tensors[name], value, rtol=1e-4, atol=1e-6)
    assert private.noise_scale == 0.0


def test_clipping_bounds_what_any_sample_adds() -> None:
    made, batch = client("mini/wikitext")
    shared = [name for name in names(made) if "wte" not in name]
    update = DPSGD(noise_multiplier=0.0, clip=0.1).local_update(made, batch, shared)
    assert list(update.tensors) == shared
    norm = math.sqrt(sum(float(t.square().sum()) for t in update.tensors.values()))
    assert 0.0 < norm <= 0.1 + 1e-6


@pytest.mark.parametrize("steps", [1, 2])
def test_noise_is_of_the_stated_scale_also_after_local_steps(steps: int) -> None:
    made, batch = client("mini/cola", local_steps=steps, learning_rate=0.1)
    quiet, loud = (
        DPSGD(noise_multiplier=m, clip=0.5).client_update(made, batch) for m in (0.0, 8.0)
    )
    name = "bert.embeddings.word_embeddings.weight"
    spread = (loud.tensors[name] - quiet.tensors[name]).std().item()
    assert loud.noise_scale is not None
    assert spread == pytest.approx(loud.noise_scale, rel=0.05)


def test_epsilon_is_what_opacus_says_step_by_step() -> None:
    made, batch = client("mini/cola", budget=BUDGET.budget)
    update = DPSGD(noise_multiplier=0.8).client_update(made, batch)
    accountant = RDPAccountant()
    for _ in range(BUDGET.rounds):
        accountant.step(noise_multiplier=0.8, sample_rate=16 / 960)
    assert update.epsilon == pytest.approx(accountant.get_epsilon(delta=1 / 960), rel=1e-9)


def test_a_budget_sets_the_noise() -> None:
    made, batch = client("mini/cola", budget=BUDGET.budget)
    strict, loose = (DPSGD(epsilon=e).client_update(made, batch) for e in (1.0, 10.0))
    assert strict.epsilon == pytest.approx(1.0, abs=0.02)
    assert loose.epsilon == pytest.approx(10.0, abs=0.02)
    assert strict.noise_scale is not None
    assert loose.noise_scale is not None
    assert strict.noise_scale > loose.noise_scale


def test_without_a_budget_no_epsilon_is_claimed() -> None:
    made, batch = client("mini/cola", samples=1)
    assert DPSGD().client_update(made, batch).epsilon is None
    with pytest.raises(Unsupported, match="does not fix how long"):
        DPSGD(epsilon=1.0).client_update(made, batch)
    made, batch = client("mini/cola", samples=1, budget=BUDGET.budget)
    assert DPSGD(noise_multiplier=0.0).client_update(made, batch).epsilon is None


def test_an_update_repeats_itself_for_the_same_generator() -> None:
    made, batch = client("mini/cola")
    found = []
    for seed in (3, 3, 4):
        made.generator.manual_seed(seed)
        found.append(DPSGD().client_update(made, batch).tensors["classifier.weight"])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


# ------------------------------------------------------------------------------ what attacks find


def found(run_cells: RunCells, task: str, defense: str) -> dict[str, float]:
    (record,) = run_cells("bag_of_words", task=task, defense=defense)
    assert record.status is Status.OK, record.reason
    return means(record)


def test_pruning_spares_the_bag_of_words_until_it_is_extreme(run_cells: RunCells) -> None:
    assert found(run_cells, "mini/wikitext", "prune[ratio=0.99]")["type_recall"] > 0.95
    assert found(run_cells, "mini/wikitext", "prune[ratio=0.9999]")["type_recall"] < 0.9


def test_the_bag_of_words_empties_as_epsilon_falls(run_cells: RunCells) -> None:
    recalls = [
        found(run_cells, "mini/wikitext-b16", f"dpsgd[noise_multiplier={noise}]")["type_recall"]
        for noise in (0.0001, 0.01, 0.1)
    ]
    assert recalls[0] > recalls[1] > recalls[2]


def test_frozen_embeddings_leave_no_bag_of_words(run_cells: RunCells) -> None:
    nothing = found(run_cells, "mini/wikitext", "freeze_embeddings")
    assert nothing["type_precision"] == nothing["type_recall"] == 0.0
