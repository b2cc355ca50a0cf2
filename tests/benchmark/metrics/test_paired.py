"""Paired tests: exact where they can be, and ranks that follow from them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from benchmark.metrics.paired import (
    SIGNIFICANT,
    all_pairs,
    can_tell_apart,
    enough_draws,
    holm,
    sign_flip_p_values,
    tied_ranks,
)


def one(differences: list[float]) -> float:
    return float(sign_flip_p_values(np.array([differences]))[0])


def by_hand(differences: list[float]) -> float:
    """All sign patterns, one by one."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(each >= observed - 1e-9 for each in sums) / len(sums)


@settings(deadline=None)
@given(st.lists(st.integers(-4, 4).map(lambda i: i / 4), min_size=1, max_size=8))
def test_small_samples_are_exact(differences: list[float]) -> None:
    assert one(differences) == pytest.approx(by_hand(differences))


def test_larger_samples_come_close_to_another_implementation() -> None:
    source = np.random.default_rng(3)
    for shift in (0.0, 0.1, 0.2):
        sample = source.normal(shift, 0.4, 32)
        other = permutation_test(
            (sample,), np.sum, permutation_type="samples", n_resamples=20_000, rng=source
        )
        assert one(sample.tolist()) == pytest.approx(other.pvalue, abs=0.02)


def test_what_agrees_needs_no_draws() -> None:
    assert one([0.1] * 32) == 2.0**-31
    assert one([0.0] * 20 + [0.5, 0.25]) == 0.5, "a difference of nothing says nothing"
    assert one([0.0] * 32) == 1.0


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Differences that are symmetric about 0, as under the null hypothesis."""
    source = np.random.default_rng(1)
    for size in (8, 32):
        draws = source.choice([-1.0, 0.0, 0.25, -0.25, 1.0], size=(2_000, size))
        assert (sign_flip_p_values(draws) <= SIGNIFICANT).mean() <= 0.06


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]).tolist() == []
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_holm_keeps_the_whole_family_honest() -> None:
    """Six attacks that are the same: a false difference on at most 5 % of boards."""
    source = np.random.default_rng(2)
    boards = source.random((200, 6, 16)).round(1)
    wrong = [(all_pairs(board) <= SIGNIFICANT).any() for board in boards]
    assert np.mean(wrong) <= 0.08


def test_pairs_are_found_that_single_intervals_would_hide() -> None:
    """One attack is a little better on every snapshot, however much snapshots differ."""
    level = np.linspace(0.1, 0.9, 16)
    p_values = all_pairs(np.array([level, level - 0.02]))
    assert p_values[0, 1] == p_values[1, 0] == pytest.approx(2.0**-15)
    assert tied_ranks([0.5, 0.48], p_values) == [1, 2]


def test_few_snapshots_cannot_tell_many_attacks_apart() -> None:
    assert not can_tell_apart(10, 8)
    assert can_tell_apart(6, 8)
    assert can_tell_apart(190, 16)
    for rows in (5, 20, 40):
        pairs = rows * (rows - 1) // 2
        assert pairs / (1 + enough_draws(pairs)) <= SIGNIFICANT, "drawing must not hide it"


BOARDS = st.integers(1, 7).flatmap(
    lambda rows: st.lists(
        st.lists(st.integers(0, 4).map(lambda i: i / 4), min_size=10, max_size=10),
        min_size=rows,
        max_size=rows,
    )
)
SHIFTED = st.tuples(BOARDS, st.randoms(use_true_random=False))


def ranked(board: list[list[float]]) -> tuple[list[float], np.ndarray, list[int]]:
    values = np.array(board)
    means = [round(float(mean), 12) for mean in values.mean(axis=1)]
    p_values = all_pairs(values)
    return means, p_values, tied_ranks(means, p_values)


@settings(deadline=None)
@given(BOARDS)
def test_ranks_follow_means_and_tests(board: list[list[float]]) -> None:
    means, p_values, ranks = ranked(board)
    for first, second in product(range(len(board)), repeat=2):
        if means[first] == means[second]:
            assert ranks[first] == ranks[second], "equal means share a rank"
        if means[first] > means[second]:
            assert ranks[first] <= ranks[second], "none ranks above a higher mean"
        if p_values[first, second] <= SIGNIFICANT and means[first] > means[second]:
            assert ranks[first] < ranks[second], "what is significantly better ranks better"
    assert all(rank == 1 + sum(other < rank for other in ranks) for rank in ranks), "as in sport"


@settings(deadline=None)
@given(SHIFTED)
def test_ranks_do_not_depend_on_order(given_: tuple[list[list[float]], object]) -> None:
    board, source = given_
    order = list(range(len(board)))
    source.shuffle(order)  # type: ignore[attr-defined]
    _, _, ranks = ranked(board)
    assert ranked([board[i] for i in order])[2] == [ranks[i] for i in order]


def test_a_rank_holds_nobody_that_another_at_it_beats() -> None:
    """A wide spread at the top does not lift the last one past the second."""
    p_values = np.ones((3, 3))
    p_values[1, 2] = p_values[2, 1] = 0.01
    assert tied_ranks([0.9, 0.8, 0.3], p_values) == [1, 1, 3]
    p_values[0, 1] = p_values[1, 0] = 0.01
    assert tied_ranks([0.9, 0.8, 0.3], p_values) == [1, 2, 3]
    assert tied_ranks([], np.ones((0, 0))) == []
