"""FLAT-CHAT: flattening, the mixture, the size regressor, and the attack on real snapshots."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from benchmark.execution.client import take_steps
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.results.schema import Status
from benchmark.spec import Client, Observation, Public, Role, Update
from submissions.attacks.flat_chat import FlatChat
from submissions.blocks.output_layer.gradient import candidates, row_sums
from submissions.blocks.output_layer.mixture import Mixture, fit_mixture
from submissions.blocks.output_layer.sizes import SizeRegressor, flattened_gradients
from tests.harness import RunCells
from tests.submissions.test_baselines import means


def public_of(task_name: str) -> Public:
    """What an attacker knows of a task."""
    task = all_tasks()[task_name]
    side, room = load_task(task), model_package()
    device = torch.device("cpu")
    model, tokenizer = room.open_model(side.model_directory, task.objective, "float32", device)
    return Public(
        task=task.name, objective=room.objective(task.objective), model=model,
        tokenizer=tokenizer, roles=room.roles(model), batch_size=task.batch_size,
        batch_tokens=task.batch_tokens, max_tokens=task.max_tokens, grants=task.grants,
        text=tuple(side.public_text()), sources=tuple(side.public_sources()), prior=None,
        device=device, seed=0,
    )  # fmt: skip


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def observed(public: Public, gradient: torch.Tensor | None) -> Observation:
    tensors = {} if gradient is None else {public.roles.names[Role.OUTPUT]: gradient}
    return Observation(public, Update(tensors), batch_size=1, seed=1, type_count=3)


@pytest.fixture(scope="module")
def public() -> Public:
    return public_of("mini/iwslt")


@pytest.mark.parametrize("name", ["mini/iwslt", "mini/wikitext", "mini/wikitext-tied"])
def test_flattening_samples_equals_summing_their_gradients(name: str) -> None:
    """Without making the matrix; a batch is the mean of its samples; tied input parts count."""
    public = public_of(name)
    texts, sources = public.text[:3], public.sources[:3] or None
    batch = public.objective.encode(public.tokenizer, texts, None, sources, 30)
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    output = public.roles.names[Role.OUTPUT]
    plain = client.gradient(batch, [output])[output].sum(dim=1)
    flat = flattened_gradients(public, batch)
    assert flat.shape == (3, len(plain))
    torch.testing.assert_close(flat.mean(dim=0), plain, rtol=1e-4, atol=1e-6)


def test_row_sums_have_length_one_and_refuse_what_is_no_number() -> None:
    gradient = torch.tensor([[1.0, 2.0], [0.0, 4.0], [-1.0, 1.0]])
    torch.testing.assert_close(row_sums(gradient), torch.tensor([0.6, 0.8, 0.0]))
    assert not row_sums(torch.zeros(3, 2)).any()
    for bad in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            row_sums(torch.tensor([[bad, 1.0]]))


def test_ranks_follow_equation_11() -> None:
    mixture = Mixture(0.1, positive=(-1.0, 2.0), negative=(0.5, 0.25), fits=1, settled=True)
    sums = torch.tensor([-1.0, 0.5, 3.0])
    expected = [((s - 0.5) / 0.25) ** 2 - ((s + 1.0) / 2.0) ** 2 for s in sums.tolist()]
    torch.testing.assert_close(mixture.rank(sums), torch.tensor(expected))


def test_the_mixture_finds_the_rare_wide_component() -> None:
    generator = torch.Generator().manual_seed(0)
    rare = torch.randn(100, generator=generator) * 0.1
    many = torch.randn(1900, generator=generator) * 0.005
    mixture = fit_mixture(torch.cat([rare, many]), seed=3, tries=10)
    assert mixture.settled
    assert 0.03 < mixture.weight < 0.06
    assert mixture.positive[1] > 10 * mixture.negative[1]


def test_a_mixture_that_never_settles_is_bounded_and_says_so() -> None:
    """One Gaussian has no rare, much wider part."""
    values = torch.randn(500, generator=torch.Generator().manual_seed(1))
    mixture = fit_mixture(values, seed=0, tries=3)
    assert not mixture.settled
    assert mixture.fits == 3


def test_outside_the_fitted_range_the_regressor_goes_straight_on() -> None:
    regressor = SizeRegressor(np.array([100.0, 0.0, 1.0]), low=0.1, high=0.5)  # 100 w² + 1
    assert regressor.predict(0.3, most=1000) == 10
    assert regressor.predict(0.7, most=1000) == 26 + 20
    assert regressor.predict(0.7, most=40) == 40
    assert regressor.predict(0.0, most=1000) == 1


def test_special_tokens_are_no_candidates(public: Public) -> None:
    found = set(candidates(public, 2000).tolist())
    assert found == set(range(2000)) - public.forbidden_ids


def test_bad_gradients_get_a_reason(public: Public) -> None:
    attack = FlatChat(size="oracle")
    attack.prepare(public)
    shape = public.model.get_parameter(public.roles.names[Role.OUTPUT]).shape
    empty = attack.recover(observed(public, torch.zeros(shape)))
    assert empty.token_types == frozenset()
    assert empty.note == "0 rows of the output-layer gradient hold anything."
    frozen = attack.recover(observed(public, None))
    assert frozen.token_types == frozenset()
    assert frozen.note == "The output layer was not shared."
    with pytest.raises(ValueError, match=r"shape \(7, 96\), but the layer has \(2000, 96\)"):
        attack.recover(observed(public, torch.ones(7, 96)))


def test_rows_that_pruning_left_empty_are_never_named(public: Public) -> None:
    attack = FlatChat(batches=2)
    attack.prepare(public)
    texts, sources = public.text[:8], public.sources[:8]
    batch = public.objective.encode(public.tokenizer, texts, None, sources, 30)
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    output = public.roles.names[Role.OUTPUT]
    gradient = client.gradient(batch, [output])[output]
    pruned = torch.where(
        gradient.abs() >= gradient.abs().flatten().topk(200).values[-1], gradient, 0
    )
    named = attack.recover(observed(public, pruned)).token_types
    assert named is not None
    assert named <= set(pruned.any(dim=1).nonzero().flatten().tolist())
    single = attack.recover(
        observed(public, torch.zeros_like(gradient).index_fill(0, torch.tensor([99]), 1.0))
    )
    assert single.token_types == frozenset({99})


def test_translation_from_scratch(run_cells: RunCells) -> None:
    """At least 0.85 at 100 tokens, and equation 11 is not worse than plain sizes."""
    predicted = means(run_cells("flat_chat", task="mini/iwslt")[0])
    assert predicted["type_f1"] >= 0.85
    assert 0 < predicted["type_count_error"] < 0.3
    told = means(run_cells("flat_chat_oracle", task="mini/iwslt-t1000-oracle")[0])
    plain = means(run_cells("flat_chat_abs_oracle", task="mini/iwslt-t1000-oracle")[0])
    assert told["type_count_error"] == plain["type_count_error"] == 0
    assert told["type_f1"] >= plain["type_f1"]
    trained = means(run_cells("flat_chat_oracle", task="mini/iwslt-finetuned-oracle")[0])
    assert trained["type_f1"] < predicted["type_f1"]


def test_an_unseen_domain(run_cells: RunCells) -> None:
    found = means(run_cells("flat_chat[batches=3]", task="mini/imdb-8x25")[0])
    assert found["type_f1"] > 0.5


def test_the_oracle_is_not_for_every_task(run_cells: RunCells) -> None:
    record = run_cells("flat_chat_oracle", task="mini/wikitext")[0]
    assert record.status is Status.UNSUPPORTED
    assert "flat_chat_oracle needs type-count" in record.reason


def test_a_client_of_an_unseen_domain_has_moved_before_its_batch() -> None:
    """Public text of another corpus, texts cut to the shape, earlier batches to warm up on."""
    task = all_tasks()["mini/imdb-16x50"]
    side = load_task(task)
    assert side.public_text() == load_task(all_tasks()["mini/wikitext"]).public_text()
    private = side.private_batch(2, 0)
    assert tuple(private.batch.input_ids.shape) == (16, 50)
    earlier = side.warmup_batches(2, 0)
    assert len(earlier) == 3
    torch.testing.assert_close(earlier[2].input_ids, side.private_batch(1, 0).batch.input_ids)
    still = dataclasses.replace(task, warmup_steps=0)
    assert load_task(still).settings_digest != side.settings_digest
    assert all(name in s.text for s in private.truth.sentences for name in s.entities)


def test_a_warm_up_is_gradient_descent_with_momentum(public: Public) -> None:
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    client.learning_rate = 0.1
    encode = public.objective.encode
    first, second = (
        encode(public.tokenizer, public.text[i : i + 2], None, public.sources[i : i + 2], 20)
        for i in (0, 2)
    )
    before = {n: p.detach().clone() for n, p in public.model.named_parameters()}
    try:
        optimizer = torch.optim.SGD(public.model.parameters(), lr=0.1, momentum=0.9)
        for batch in (first, second):
            optimizer.zero_grad()
            public.objective.loss(public.model, batch).backward()
            optimizer.step()
        expected = {n: p.detach().clone() for n, p in public.model.named_parameters()}
        _restore(public, before)
        take_steps(client, [first, second], momentum=0.9, seed=0)
        for name, value in public.model.named_parameters():
            torch.testing.assert_close(value.detach(), expected[name])
    finally:
        _restore(public, before)


def _restore(public: Public, weights: dict[str, torch.Tensor]) -> None:
    for name, parameter in public.model.named_parameters():
        parameter.data.copy_(weights[name])
        parameter.grad = None
