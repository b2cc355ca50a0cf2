"""RLG: the fast search against one exact linear program a row, and the attack on snapshots."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmark.spec import Public
from submissions.attacks.rlg import RevealLabels
from submissions.blocks.clock import Clock
from submissions.blocks.output_layer.separability import (
    Work,
    coordinates,
    separable_exactly,
    separable_rows,
    separate,
)
from tests.harness import RunCells
from tests.submissions.test_baselines import means
from tests.submissions.test_flat_chat import observed, public_of


def output_gradient(
    vocabulary: int, width: int, types: int, tokens: int, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, set[int]]:
    """The gradient of an output layer on random hidden states, and the labels behind it."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, width, generator=generator, dtype=dtype)  # (T, D)
    weight = torch.randn(vocabulary, width, generator=generator, dtype=dtype) / width**0.5
    labels = torch.randperm(vocabulary, generator=generator)[:types]
    repeated = labels[torch.randint(types, (tokens - types,), generator=generator)]
    labels = torch.cat([labels, repeated])
    slopes = (hidden @ weight.T).softmax(dim=1)  # (T, V)
    slopes[torch.arange(tokens), labels] -= 1
    return slopes.T @ hidden / tokens, set(labels.tolist())


def sizes(gradient: torch.Tensor) -> np.ndarray:
    return gradient.double().norm(dim=1).numpy()


@pytest.mark.parametrize(("width", "types", "tokens"), [(32, 12, 16), (32, 20, 60), (16, 24, 40)])
def test_the_fast_search_agrees_with_the_exact_programs(
    width: int, types: int, tokens: int
) -> None:
    """Below the width with and without repeated tokens, and beyond it."""
    gradient, labels = output_gradient(150, width, types, tokens)
    rows = coordinates(gradient)
    found = separable_rows(rows, sizes(gradient))
    exact = [separable_exactly(rows, number) for number in range(len(rows))]
    assert found.separable.tolist() == exact
    assert found.certified.all()
    if tokens <= width:
        assert set(np.flatnonzero(found.separable)) == labels
        assert rows.shape[1] == tokens
    assert set(np.flatnonzero(found.separable)) <= labels


@pytest.mark.parametrize("count", [1, 2, 12, 13])
def test_few_rows_are_enough(count: int) -> None:
    """As pruning may leave them."""
    gradient, _ = output_gradient(150, 16, 8, 10)
    rows = coordinates(gradient[:count])
    found = separable_rows(rows, sizes(gradient[:count]))
    exact = [separable_exactly(rows, number) for number in range(count)] if count > 1 else [True]
    assert found.separable.tolist() == exact


def test_few_small_problems_are_solved() -> None:
    gradient, labels = output_gradient(2000, 64, 30, 40)
    found = separable_rows(coordinates(gradient), sizes(gradient))
    assert set(np.flatnonzero(found.separable)) == labels
    assert found.programs < 500


def test_a_program_yields_a_direction_or_a_combination() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.2]])
    apart = separate(rows[3], rows[:3])
    assert apart.value < -0.5
    assert apart.direction is not None
    assert (rows[:3] @ apart.direction >= -1e-9).all()
    inside = separate(rows[2], rows[:2])
    assert inside.value == 0
    np.testing.assert_allclose(inside.weights @ rows[:2], rows[2])


def test_rows_that_do_not_sum_to_zero_are_all_tested() -> None:
    """Their cone need not be the whole space, so nothing can be concluded from a few."""
    rows = np.random.default_rng(0).normal(size=(60, 5))
    rows[:, 0] = np.abs(rows[:, 0]) + 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = separable_rows(rows, np.ones(60))
    assert found.separable.tolist() == [separable_exactly(rows, i) for i in range(60)]
    assert found.certified.all()


def test_no_time_left_is_no_proof() -> None:
    gradient, _ = output_gradient(150, 32, 12, 16)
    found = separable_rows(coordinates(gradient), sizes(gradient), Clock(lambda: -1.0))
    assert not found.separable.any()
    assert not found.certified.all()


def test_the_rank_is_that_of_the_hidden_states() -> None:
    for dtype in (torch.float32, torch.float64):
        for tokens in (5, 20, 31):
            gradient, _ = output_gradient(400, 32, 5, tokens, dtype)
            assert coordinates(gradient).shape == (400, tokens)


@pytest.fixture(scope="module")
def public() -> Public:
    return public_of("mini/iwslt")


def test_bad_gradients_get_a_reason(public: Public) -> None:
    attack = RevealLabels()
    empty = attack.recover(observed(public, torch.zeros(2000, 96)))
    assert empty.token_types == frozenset()
    assert empty.note == "The output-layer gradient is all zero."
    assert attack.recover(observed(public, None)).note == "The output layer was not shared."
    with pytest.raises(ValueError, match="NaN or infinite"):
        attack.recover(observed(public, torch.full((2000, 96), torch.nan)))
    with pytest.raises(ValueError, match="shape"):
        attack.recover(observed(public, torch.ones(96, 2000)))


def test_a_full_rank_is_said(public: Public) -> None:
    gradient, _ = output_gradient(2000, 96, 150, 300)
    answer = RevealLabels().recover(observed(public, gradient))
    assert len(answer.token_types or ()) < 15
    assert answer.note.startswith("Rank 96 of 96. The rank is full")


def test_every_label_of_a_short_batch_is_found(run_cells: RunCells) -> None:
    found = means(run_cells("rlg", task="mini/wikitext")[0])
    assert found["type_precision"] == 1.0
    assert found["type_recall"] > 0.97


def test_it_collapses_beyond_the_width(run_cells: RunCells) -> None:
    record = run_cells("rlg", task="mini/iwslt-t500")[0]
    assert means(record)["type_f1"] < 0.1
    assert all("The rank is full" in result.note for result in record.snapshots)


def tied_gradient(vocabulary: int, width: int, tokens: int) -> torch.Tensor:
    """As where input and output embeddings are one matrix: the tokens' rows have a part more."""
    gradient, labels = output_gradient(vocabulary, width, tokens, tokens)
    generator = torch.Generator().manual_seed(1)
    gradient[sorted(labels)] += torch.randn(tokens, width, generator=generator) / tokens
    return gradient


@pytest.mark.parametrize(("width", "tokens"), [(32, 8), (24, 20)])
def test_tied_rows_are_decided_as_the_exact_programs_decide(width: int, tokens: int) -> None:
    """Nothing spans the space there, so every row is tested, most of them against a few."""
    gradient = tied_gradient(150, width, tokens)
    rows = coordinates(gradient)
    found = separable_rows(rows, sizes(gradient))
    assert found.certified.all()
    assert found.separable.tolist() == [separable_exactly(rows, n) for n in range(len(rows))]


def test_the_work_on_tied_rows_has_an_end() -> None:
    """What was decided until then is what is decided without an end."""
    gradient = tied_gradient(400, 24, 20)
    rows, work = coordinates(gradient), Work(most=4e8)
    cut, whole = (
        separable_rows(rows, sizes(gradient), work=w) for w in (work, Work(most=float("inf")))
    )
    assert work.spent < 2 * work.most
    assert cut.certified.any()
    assert not cut.certified.all()
    assert (cut.separable <= whole.separable).all()
    assert (cut.separable == whole.separable)[cut.certified].all()
