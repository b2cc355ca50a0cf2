"""Boards hold what was run on the same snapshots, and ranks follow from paired differences."""

from __future__ import annotations

from benchmark.results.measure import summary
from benchmark.results.schema import MetricValue, Record, Score, Status
from leaderboard.data.ranking import Board, Row, boards, main_metrics, shared_ranks
from tests.leaderboard.samples import make_record, make_score, make_snapshots

FAMILIES = {"mini/cola-b1": "classification", "mini/iwslt": "translation"}


def scored(record: Record, score: Score | None = None) -> Row:
    """A row with a fresh score."""
    return Row(record, score or make_score())


def only_board(rows: list[Row]) -> Board:
    """The board of rows that all belong to one."""
    (board,) = boards(rows, FAMILIES)
    return board


def value(values: list[float]) -> MetricValue:
    """A value by its snapshots."""
    return summary("rougeL", values)


def test_a_small_difference_on_every_snapshot_is_a_difference() -> None:
    """Though the intervals of the two means overlap almost wholly."""
    level = [i / 20 for i in range(1, 17)]
    first, second = value([x + 0.05 for x in level]), value(level)
    assert first.low < second.mean < first.high
    assert shared_ranks([first, second]) == [1, 2]
    assert shared_ranks([first, second], upward=False) == [2, 1]


def test_differences_that_come_and_go_are_none() -> None:
    first, second = value([1.0, 0.0] * 8), value([0.0, 0.9] * 8)
    assert shared_ranks([first, second]) == [1, 1]


def test_equal_means_share_a_rank_and_nothing_is_nothing() -> None:
    assert shared_ranks([value([0.2, 0.4] * 8), value([0.4, 0.2] * 8)]) == [1, 1]
    assert shared_ranks([]) == []


def test_values_of_other_snapshots_are_not_paired() -> None:
    assert shared_ranks([value([0.9] * 16), value([0.1] * 8)]) == [1, 1]


def test_too_few_snapshots_for_so_many_attacks_are_said_to_be() -> None:
    def board(attacks: int) -> Board:
        return only_board(
            [
                scored(make_record(attack=f"a{i}"), make_score({"rougeL": [i / 10] * 8}))
                for i in range(attacks)
            ]
        )

    assert board(4).rankings[0].decidable
    assert [entry.rank for entry in board(4).rankings[0].entries] == [1, 2, 3, 4]
    assert not board(6).rankings[0].decidable
    assert {entry.rank for entry in board(6).rankings[0].entries} == {1}


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


def test_each_seed_has_its_own_board() -> None:
    rows = [scored(make_record(seed=s, attack=a)) for s in (2, 0) for a in ("lamp", "tag")]
    made = boards(rows, FAMILIES)
    assert [board.seed for board in made] == [0, 2]
    assert all({row.seed for row in board.rows} == {board.seed} for board in made)


def test_other_snapshots_are_another_board() -> None:
    """No row of a board comes from other snapshots than its neighbors'; old ones are set apart."""

    def moved(record: Record, digest: str, year: int) -> Record:
        changed = [s.model_copy(update={"digest": digest * 64}) for s in record.snapshots]
        created = record.provenance.created.replace(year=year)
        origin = record.provenance.model_copy(update={"created": created})
        return record.model_copy(update={"snapshots": changed, "provenance": origin})

    rows = [
        scored(moved(make_record(attack="old"), "1", 2024)),
        scored(moved(make_record(attack="new"), "2", 2026)),
        scored(moved(make_record(attack="newer"), "2", 2025)),
        Row(make_record(attack="refused", status=Status.UNSUPPORTED, reason="needs labels")),
    ]
    current, former = boards(rows, FAMILIES)
    assert (current.current, former.current) == (True, False)
    assert {row.attack for row in current.rows} == {"new", "newer", "refused"}
    assert {row.attack for row in former.rows} == {"old"}
    for board in (current, former):
        assert len({row.record.snapshot_set for row in board.rows if row.record.snapshots}) == 1


def test_the_best_baseline_stands_beside_every_metric() -> None:
    def row(attack: str, recall: float, error: float, baseline: bool) -> Row:
        values = {"rougeL": [0.1] * 8, "sentence_recall": [recall] * 8}
        score = make_score(values | {"type_count_error": [error] * 8, "seconds": [1.0] * 8})
        return Row(make_record(attack=attack), score, baseline=baseline)

    board = only_board(
        [
            row("film", 0.9, 0.1, False),
            row("public_sentences", 0.44, 0.6, True),
            row("random", 0.1, 0.5, True),
        ]
    )
    recall, error = board.guesses["sentence_recall"], board.guesses["type_count_error"]
    assert (recall.attack, recall.value.mean) == ("public_sentences", 0.44)
    assert (error.attack, error.value.mean) == ("random", 0.5), "less is better"
    assert "seconds" not in board.guesses
    assert board.rankings[0].baseline == 0.1


def test_any_metric_may_rank() -> None:
    rows = [
        scored(make_record(attack=a), make_score({"type_count_error": [e] * 8}))
        for a, e in (("far", 0.9), ("near", 0.1))
    ]
    (board,) = boards(rows, FAMILIES, "type_count_error")
    assert [(e.rank, e.row.attack) for e in board.rankings[0].entries] == [(1, "near"), (2, "far")]


def test_versions_and_defenses_are_never_ranked_together() -> None:
    rows = [
        scored(make_record(version=1)),
        scored(make_record(version=2)),
        scored(make_record(version=2, defense="prune", defense_parameters={"ratio": 0.9})),
        scored(make_record(version=2, defense="dpsgd")),
    ]
    made = [(board.version, board.defense) for board in boards(rows, FAMILIES)]
    assert made == [(2, "none"), (2, "dpsgd"), (2, "prune[ratio=0.9]"), (1, "none")]
