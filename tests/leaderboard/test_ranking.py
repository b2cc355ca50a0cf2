"""Ranks are shared where intervals overlap, and never depend on the order of the input."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from benchmark.results.schema import MetricValue, Record, Score, Status
from leaderboard.data.ranking import Board, Row, boards, main_metrics, shared_ranks
from tests.leaderboard.samples import make_record, make_score, make_snapshots

FAMILIES = {"mini/cola-b1": "classification", "mini/iwslt": "translation"}


def interval(mean: float, low: float, high: float) -> MetricValue:
    """A value whose single snapshots do not matter."""
    return MetricValue(mean=mean, low=low, high=high, n=8, values=[mean] * 8)


def scored(record: Record, score: Score | None = None) -> Row:
    """A row with a fresh score."""
    return Row(record, score or make_score())


def only_board(rows: list[Row]) -> Board:
    """The board of rows that all belong to one."""
    (board,) = boards(rows, FAMILIES)
    return board


INTERVALS = st.lists(
    st.tuples(*[st.integers(0, 12)] * 3).map(
        lambda ends: interval(*(sorted(ends)[i] / 12 for i in (1, 0, 2)))
    ),
    max_size=12,
)


def test_overlapping_intervals_share_a_rank() -> None:
    values = [interval(0.9, 0.8, 1.0), interval(0.85, 0.75, 0.95), interval(0.3, 0.2, 0.4)]
    assert shared_ranks(values) == [1, 1, 3]


def test_intervals_that_only_touch_cannot_be_told_apart() -> None:
    assert shared_ranks([interval(0.9, 0.8, 1.0), interval(0.7, 0.6, 0.8)]) == [1, 1]


def test_a_wide_interval_is_no_advantage() -> None:
    values = [interval(0.9, 0.85, 0.95), interval(0.8, 0.79, 0.81), interval(0.7, 0.5, 0.9)]
    assert shared_ranks(values) == [1, 2, 2]


def test_ranks_are_counted_as_in_sport() -> None:
    values = [interval(0.9, 0.8, 1.0), interval(0.8, 0.7, 0.9), interval(0.75, 0.6, 0.85)]
    assert shared_ranks([*values, interval(0.5, 0.4, 0.65)]) == [1, 1, 1, 4]


def test_nothing_to_rank() -> None:
    assert shared_ranks([]) == []


@given(INTERVALS, st.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_order(values: list[MetricValue], source: random.Random) -> None:
    order = list(range(len(values)))
    source.shuffle(order)
    ranks = shared_ranks(values)
    assert shared_ranks([values[i] for i in order]) == [ranks[i] for i in order]


@given(INTERVALS)
def test_dominance_and_means_are_respected(values: list[MetricValue]) -> None:
    ranks = shared_ranks(values)
    for rank, value in zip(ranks, values, strict=True):
        for other_rank, other in zip(ranks, values, strict=True):
            if value.low > other.high:
                assert rank < other_rank
            if value.mean > other.mean:
                assert rank <= other_rank
            if value.mean == other.mean:
                assert rank == other_rank


@given(INTERVALS.filter(bool))
def test_the_highest_mean_is_first(values: list[MetricValue]) -> None:
    ranks = shared_ranks(values)
    assert ranks[max(range(len(values)), key=lambda i: values[i].mean)] == 1
    assert all(1 <= rank <= len(values) for rank in ranks)


def test_translation_is_ranked_by_token_types() -> None:
    assert main_metrics("translation") == ("type_f1",)
    assert main_metrics("classification") == main_metrics("") == ("rougeL", "type_f1")


def test_token_sets_are_ranked_by_types_only() -> None:
    types = make_record(attack="bag_of_words", snapshots=make_snapshots(token_sets=True))
    board = only_board([scored(make_record()), scored(types)])
    by_metric = {ranking.metric: ranking for ranking in board.rankings}
    assert [entry.row.attack for entry in by_metric["rougeL"].entries] == ["lamp"]
    assert [row.attack for row in by_metric["rougeL"].token_sets] == ["bag_of_words"]
    assert {e.row.attack for e in by_metric["type_f1"].entries} == {"lamp", "bag_of_words"}
    assert not board.unranked


def test_an_attack_that_says_nothing_is_ranked_with_sentences() -> None:
    silent = [s.model_copy(update={"sentences": [], "texts": []}) for s in make_snapshots()]
    zero = make_score({"rougeL": [0.0] * 8, "type_f1": [0.0] * 8})
    board = only_board([scored(make_record(snapshots=silent), zero)])
    assert [ranking.metric for ranking in board.rankings] == ["rougeL", "type_f1"]


def test_one_good_snapshot_is_enough_to_be_ranked() -> None:
    record = make_record(status=Status.TIMEOUT, snapshots=make_snapshots(failed=7))
    board = only_board([scored(record)])
    assert board.rankings[0].entries[0].row.failed == 7
    assert not board.unranked


def test_rows_without_a_good_snapshot_are_not_ranked() -> None:
    failed = make_record(status=Status.ERROR, snapshots=make_snapshots(failed=8))
    other = make_record(attack="tag", status=Status.UNSUPPORTED, reason="needs labels")
    board = only_board([scored(failed), Row(other)])
    assert not board.rankings
    assert [(row.attack, row.status) for row in board.unranked] == [
        ("lamp", "error"),
        ("tag", "unsupported"),
    ]


def test_every_row_is_shown_somewhere_exactly_once() -> None:
    rows = [
        scored(make_record()),
        Row(make_record(attack="tag")),
        scored(make_record(attack="odd"), make_score({"nerr": [0.1] * 8})),
    ]
    board = only_board(rows)
    assert sorted(row.attack for row in board.rows) == ["lamp", "odd", "tag"]
    assert {row.attack for row in board.unranked} == {"odd", "tag"}


def test_each_seed_is_its_own_row() -> None:
    board = only_board([scored(make_record(seed=seed)) for seed in (2, 0, 1)])
    assert [entry.row.seed for entry in board.rankings[0].entries] == [0, 1, 2]
    assert all(entry.shared and entry.rank == 1 for entry in board.rankings[0].entries)


def test_versions_and_defenses_are_never_ranked_together() -> None:
    rows = [
        scored(make_record(version=1)),
        scored(make_record(version=2)),
        scored(make_record(version=2, defense="prune", defense_parameters={"ratio": 0.9})),
        scored(make_record(version=2, defense="dpsgd")),
    ]
    made = [(board.version, board.defense) for board in boards(rows, FAMILIES)]
    assert made == [(2, "none"), (2, "dpsgd"), (2, "prune[ratio=0.9]"), (1, "none")]
