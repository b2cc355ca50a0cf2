"""The search itself: operators, projection, joint runs, budgets, ablations, what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.spec import Observation, Role, Unsupported, Update
from submissions.attacks.dlg import DLG
from submissions.attacks.lamp_cos import LampCos
from submissions.attacks.lamp_l2l1 import LampL2L1
from submissions.attacks.tag import TAG
from submissions.blocks.gradient_matching.build import padding_shows, vocabulary_of
from submissions.blocks.gradient_matching.discrete import OPERATORS, permutation, rearrangements
from submissions.blocks.gradient_matching.problem import problems_of
from submissions.blocks.sentences import sentence_lengths
from tests.submissions.test_matching_models import RisingPrior, make_public, observe

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK: dict[str, Any] = {
    "initial_candidates": 12, "initial_permutations": 6, "discrete_candidates": 20,
    "discrete_every": 5, "steps": 14, "learning_rate": 0.05,
}  # fmt: skip
SENTENCES = (
    "word1 word2 word3 word4 word5 word6",
    "word7 word8 word9",
    "word11 word12 word13 word14 word15",
)


def sentences(observations: Sequence[Observation], attack: Any) -> list[list[list[int]]]:
    return [[list(ids) for ids in r.sentences] for r in attack.recover_many(observations)]


def snapshots(name: str = "bert", prior: bool = True) -> list[Observation]:
    public = make_public(name, prior=prior)
    return [observe(public, text, seed=40 + i) for i, text in enumerate(SENTENCES)]


# ------------------------------------------------------------------------------------ operators


@given(st.integers(2, 12), st.data())
def test_operators_permute(tokens: int, data: st.DataObject) -> None:
    places = [data.draw(st.integers(0, tokens - 1)) for _ in range(3)]
    identity = tuple(range(tokens))
    for operator in OPERATORS:
        assert sorted(operator(identity, *places)) == list(identity)


def test_operators_do_what_the_paper_says() -> None:
    swap, move_token, move_span, move_prefix = OPERATORS
    order = (0, 1, 2, 3, 4)
    assert swap(order, 1, 3, 0) == (0, 3, 2, 1, 4)
    assert move_token(order, 1, 3, 0) == (0, 2, 3, 1, 4)
    assert move_span(order, 2, 1, 1) == (0, 1, 2, 3, 4)
    assert move_span(order, 0, 1, 3) == (2, 3, 4, 0, 1)
    assert move_prefix(order, 1, 0, 0) == (2, 3, 4, 0, 1)


@given(st.integers(0, 12), st.integers(1, 60), st.integers(0, 1000))
def test_rearrangements_start_with_the_identity_and_differ(
    tokens: int, count: int, seed: int
) -> None:
    orders = rearrangements(tokens, count, torch.Generator().manual_seed(seed))
    assert orders[0] == tuple(range(tokens))
    assert len(set(orders)) == len(orders) <= count
    assert all(sorted(order) == list(range(tokens)) for order in orders)
    shuffled = permutation(tokens, torch.Generator().manual_seed(seed))
    assert sorted(shuffled) == list(range(tokens))


def test_projection_never_gives_a_forbidden_token() -> None:
    public = make_public("bert")
    vocabulary = vocabulary_of(public)
    nearest = vocabulary.nearest(vocabulary.table)
    assert public.forbidden_ids.isdisjoint(nearest.tolist())
    allowed = vocabulary.allowed.nonzero().flatten()
    assert nearest[allowed].tolist() == allowed.tolist()


# ------------------------------------------------------------------------------- whole recoveries


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["bert", "distilbert", "bilstm", "gpt2", "llama"])
@pytest.mark.parametrize("attack", [DLG, TAG, LampCos, LampL2L1])
def test_every_attack_answers_for_every_model(attack: Any, name: str, batch: int) -> None:
    observation = observe(make_public(name), *SENTENCES[:batch])
    settings = {key: value for key, value in QUICK.items() if key in attack.parameters}
    recovery = attack(**(settings | {"steps": 3})).recover(observation)
    found = [len(ids) for ids in recovery.sentences]
    assert found == [len(text.split()) for text in SENTENCES[:batch]]
    used = {i for ids in recovery.sentences for i in ids}
    assert used.isdisjoint(observation.public.forbidden_ids)
    assert recovery.note == ""


@pytest.mark.parametrize("attack", [DLG, TAG, LampCos, LampL2L1])
def test_joint_recoveries_equal_single_ones(attack: Any) -> None:
    settings = {key: value for key, value in QUICK.items() if key in attack.parameters}
    observations = snapshots()
    together = sentences(observations, attack(**settings))
    alone = [sentences([observation], attack(**settings))[0] for observation in observations]
    assert together == alone
    split = sentences(observations, attack(**settings, memory_mb=1))
    assert split == alone


def test_same_seed_same_answer_other_seed_other_start() -> None:
    observation = snapshots()[0]
    attack = LampCos(**QUICK)
    assert attack.recover(observation) == attack.recover(observation)
    settings = QUICK | {"steps": 1, "discrete": "none"}
    other = LampCos(**settings).recover(replace(observation, seed=99))
    assert LampCos(**settings).recover(observation) != other


def test_lamp_recovers_a_sentence() -> None:
    """Enough steps on a tiny model give the words, and the prior helps with their order."""
    observation = snapshots()[1]
    settings = QUICK | {"steps": 200, "learning_rate": 0.1, "discrete_every": 50}
    recovery = LampCos(**settings).recover(observation)
    truth = observation.public.tokenizer(SENTENCES[1], add_special_tokens=False).input_ids
    assert sorted(recovery.sentences[0]) == sorted(truth)


def test_ablations_differ() -> None:
    observations = snapshots()
    variants: list[dict[str, Any]] = [
        {}, {"language_weight": 0.0}, {"length_weight": 0.0}, {"discrete": "end"},
        {"discrete": "none"},
    ]  # fmt: skip
    settings = QUICK | {"language_weight": 2.0}
    answers = [sentences(observations, LampCos(**(settings | v))) for v in variants]
    assert all(a != answers[0] for a in answers[1:])
    with_l1, l2_only = (LampL2L1(**QUICK, l1_weight=w).distance() for w in (0.01, 0.0))
    assert type(with_l1) is not type(l2_only)


def test_the_prior_is_asked_only_if_it_counts() -> None:
    public = make_public("bert")
    prior = public.prior
    assert isinstance(prior, RisingPrior)
    observation = observe(public, SENTENCES[0])
    LampCos(**QUICK, language_weight=0.0).recover(observation)
    assert prior.asked == 0
    LampCos(**QUICK).recover(observation)
    assert prior.asked > 0


def test_without_a_prior_it_runs_as_its_own_ablation_and_says_so() -> None:
    with_none = LampCos(**QUICK).recover(snapshots(prior=False)[0])
    ablation = LampCos(**QUICK, language_weight=0.0).recover(snapshots()[0])
    assert with_none.sentences == ablation.sentences
    assert "without a language model" in with_none.note
    assert ablation.note == ""


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_both_optimizers_lower_the_loss(optimizer: str) -> None:
    seen: list[float] = []
    observation = replace(snapshots()[0], report=lambda step, steps, loss: seen.append(loss))
    settings = QUICK | {"optimizer": optimizer, "clip": 0.5, "discrete": "none"}
    LampCos(**settings).recover(observation)
    assert len(seen) == QUICK["steps"]
    assert seen[-1] < seen[0]


def test_a_short_budget_returns_the_best_state_so_far() -> None:
    left = iter([100.0] * 6 + [0.5] * 100)
    observation = replace(snapshots()[0], seconds_left=lambda: next(left))
    recovery = DLG(steps=10_000).recover(observation)
    assert len(recovery.sentences[0]) == len(SENTENCES[0].split())
    assert "of 10000 steps" in recovery.note


def test_a_short_budget_does_not_go_into_the_start() -> None:
    """Half of the time at most, however many starts there are to choose from."""
    end = time.monotonic() + 4.0
    observation = replace(snapshots()[0], seconds_left=lambda: end - time.monotonic())
    attack = LampCos(initial_candidates=10**9, steps=10**6, discrete_candidates=5)
    assert attack.recover(observation).sentences


# --------------------------------------------------------------------- what is not known or wrong


def test_unknown_labels_are_tried_one_by_one() -> None:
    public = make_public("bert", labels=3)
    observation = observe(public, SENTENCES[1], known=False)
    assert [p.classes for p in problems_of(observation, 0, False)] == [(0,), (1,), (2,)]
    assert [p.classes for p in problems_of(observation, 0, True)] == [None]
    assert len(LampCos(**QUICK).recover(observation).sentences) == 1
    batch = observe(public, *SENTENCES, known=False)
    assert [p.classes for p in problems_of(batch, 0, False)] == [None]
    assert len(DLG(steps=3).recover(batch).sentences) == 3


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_length_is_read_off_the_positions(name: str) -> None:
    public = make_public(name)
    lengths = observe(public, SENTENCES[0]).lengths
    assert sentence_lengths(observe(public, SENTENCES[0], known=False)) == lengths
    hidden = observe(public, SENTENCES[0], known=False)
    position = public.roles.names[Role.POSITION_EMBEDDING]
    tensors = {n: t for n, t in hidden.update.tensors.items() if n != position}
    assert sentence_lengths(replace(hidden, update=Update(tensors))) == (public.max_tokens,)


def changed(observation: Observation, value: float) -> Observation:
    tensors = {n: torch.full_like(t, value) for n, t in observation.update.tensors.items()}
    return replace(observation, update=Update(tensors))


def test_updates_that_say_nothing_are_refused_in_a_sentence() -> None:
    observation = snapshots()[0]
    with pytest.raises(ValueError, match="holds NaN or infinite values"):
        DLG(steps=3).recover(changed(observation, float("nan")))
    with pytest.raises(ValueError, match="zero in every matched parameter"):
        DLG(steps=3).recover(changed(observation, 0.0))
    word = observation.public.roles.names[Role.WORD_EMBEDDING]
    only = {word: observation.update.tensors[word]}
    with pytest.raises(ValueError, match="nothing but word embeddings"):
        DLG(steps=3).recover(replace(observation, update=Update(only)))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_one_token_is_enough(name: str) -> None:
    recovery = LampCos(**QUICK).recover(observe(make_public(name), "word3"))
    assert [len(ids) for ids in recovery.sentences] == [1]


def test_partly_shared_and_partly_zero_updates_are_matched() -> None:
    observation = snapshots()[0]
    tensors = {n: t for n, t in observation.update.tensors.items() if ".0." in n}
    first = next(iter(tensors))
    tensors[first] = torch.zeros_like(tensors[first])
    recovery = LampCos(**QUICK).recover(replace(observation, update=Update(tensors)))
    assert recovery.sentences[0]


def test_classifiers_that_see_padding_are_matched_at_equal_length() -> None:
    """GPT-2 as a classifier, given embeddings, reads its answer at the last place."""
    public = make_public("gpt2-classifier")
    assert padding_shows(public)
    assert not padding_shows(make_public("bert"))
    texts = (SENTENCES[0], SENTENCES[1], "word1 word2 word3")
    observations = [observe(public, text) for text in texts]
    together = sentences(observations, LampCos(**QUICK))
    assert together == [sentences([o], LampCos(**QUICK))[0] for o in observations]
    with pytest.raises(Unsupported, match="reads its answer at the last place"):
        LampCos(**QUICK).recover(observe(public, *SENTENCES))


def test_a_weight_difference_is_matched_as_a_batch_or_by_its_steps() -> None:
    observation = observe(make_public("bert"), *SENTENCES, local_steps=3)
    for simulate in (False, True):
        recovery = DLG(steps=2, simulate_steps=simulate).recover(observation)
        assert len(recovery.sentences) == 3
        assert ("Simulated" in recovery.note) is simulate
