"""From records to scores: failures count, what does not apply is absent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmark.errors import UserError
from benchmark.metrics.table import METRICS, of_kind
from benchmark.results.measure import EXAMPLES, score_record
from benchmark.results.schema import Provenance, Record, Score, SnapshotResult, Status
from benchmark.spec import TrueSentence, Truth

RECOVERY = {metric.name for metric in of_kind("recovery")}
SENTENCES = {name for name in RECOVERY if METRICS[name].needs_sentences}
SPECIAL = frozenset({0, 1})
PROVENANCE = Provenance(
    fingerprint="f",
    attack_digest="a",
    defense_digest="d",
    git_commit="c",
    git_dirty=False,
    packages={},
    python="3.11",
    platform="linux",
    processor="cpu",
    cores=2,
    memory_gb=1.0,
    device="cpu",
    threads=1,
    tf32=False,
    sandbox="none",
    created=datetime(2025, 1, 1, tzinfo=UTC),
)


def decode(ids: Sequence[int]) -> str:
    """Id 12 is `w12`: a word with a digit, so that PTLR applies to every batch."""
    return " ".join(f"w{i}" for i in ids)


def truth(*sentences: Sequence[int], entities: tuple[str, ...] = ("w5",)) -> Truth:
    return Truth(tuple(TrueSentence(tuple(s), decode(s), entities=entities) for s in sentences))


def ok(index: int, *sentences: list[int], **fields: Any) -> SnapshotResult:
    return SnapshotResult(
        index=index, digest="", status=Status.OK, sentences=list(sentences), **fields
    )


def failed(index: int, status: Status = Status.TIMEOUT) -> SnapshotResult:
    return SnapshotResult(index=index, digest="", status=status, reason="too slow")


def score(
    truths: Sequence[Truth], *snapshots: SnapshotResult, specials: int = 2, **fields: Any
) -> Score:
    settings = {"status": Status.OK} | fields
    record = Record(
        suite="mini",
        task="mini/t",
        task_version=1,
        attack="a",
        defense="none",
        seed=0,
        snapshots=list(snapshots),
        provenance=PROVENANCE,
        **settings,
    )
    return score_record(record, truths, decode, SPECIAL, "digest", specials)


TWO = [truth([5, 6, 7]), truth([5, 8, 9])]


def test_perfect_record_scores_one_on_everything() -> None:
    result = score(TWO, ok(0, [0, 5, 6, 7, 1]), ok(1, [0, 5, 8, 9, 1]))
    assert result.metrics.keys() == RECOVERY
    assert result.record_digest == "digest"
    for name, value in result.metrics.items():
        assert value.values == [0.0 if name == "type_count_error" else 1.0] * 2
        assert value.n == 2


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_failed_snapshot_counts_as_zero(status: Status) -> None:
    result = score(TWO, ok(0, [5, 6, 7]), failed(1, status))
    for name, value in result.metrics.items():
        expected = [0.0, 1.0] if name == "type_count_error" else [1.0, 0.0]
        assert value.values == expected, name
        assert (value.mean, value.n) == (0.5, 2)


def test_results_of_a_failed_snapshot_are_not_believed() -> None:
    half = failed(0).model_copy(update={"sentences": [[5, 6, 7]], "token_types": [5]})
    assert score(TWO[:1], half).metrics["rouge1"].mean == 0


def test_missing_snapshot_counts_as_failed() -> None:
    assert score(TWO, ok(1, [5, 8, 9])).metrics["rougeL"].values == [0.0, 1.0]


@pytest.mark.parametrize("snapshots", [(), (failed(0), failed(1))])
def test_record_without_any_answer_gets_zeros_on_everything(
    snapshots: tuple[SnapshotResult, ...],
) -> None:
    result = score(TWO, *snapshots, status=Status.ERROR, reason="crash")
    assert result.metrics.keys() == RECOVERY
    assert result.metrics.pop("type_count_error").values == [1.0, 1.0]
    assert all(value.values == [0.0, 0.0] for value in result.metrics.values())
    assert result.examples == []


def test_unsupported_record_has_no_metrics() -> None:
    result = score(TWO, status=Status.UNSUPPORTED, reason="frozen", peak_mb=5.0)
    assert (result.metrics, result.examples) == ({}, [])


def test_snapshots_that_an_attack_refused_count_as_zero() -> None:
    """One refusal neither wipes the score of the others nor excuses the task."""
    refused = failed(1, Status.UNSUPPORTED)
    one = score(TWO, ok(0, [5, 6, 7]), refused, status=Status.UNSUPPORTED)
    assert one.metrics["rougeL"].values == [1.0, 0.0]
    every = score(TWO, failed(0, Status.UNSUPPORTED), refused, status=Status.UNSUPPORTED)
    assert every.metrics["rougeL"].values == [0.0, 0.0]


def test_special_tokens_count_on_the_published_scale_alone() -> None:
    """A wrong guess of three words shares two of five with the truth there."""
    wrong = score(TWO[:1], ok(0, [0, 8, 9, 10, 1])).metrics
    assert wrong["rouge1"].mean == 0
    assert wrong["rouge1_with_specials"].mean == pytest.approx(2 * 2 / (5 + 5))
    nothing = score(TWO[:1], failed(0)).metrics
    assert nothing["rouge1_with_specials"].mean == 0
    assert "rouge1_with_specials" not in score(TWO[:1], ok(0, [5]), specials=0).metrics


def test_intervals_fit_their_metric() -> None:
    metrics = score(
        TWO, ok(0, [5, 6, 7], seconds=1.0), ok(1, [5, 8, 9], seconds=3.0), peak_mb=9.0
    ).metrics
    assert metrics["exact_match"].low == pytest.approx(0.025**0.5, abs=1e-8), "no certainty"
    assert metrics["seconds"].low == 0.0, "Student's interval, cut where time begins"
    assert metrics["seconds"].high == pytest.approx(2 + 12.7062, abs=1e-3)
    assert (metrics["peak_mb"].low, metrics["peak_mb"].high) == (9.0, 9.0)


def test_types_only_attack_has_no_sentence_metrics() -> None:
    result = score(TWO, ok(0, token_types=[0, 5, 6, 7]), failed(1))
    assert result.metrics.keys() == RECOVERY - SENTENCES
    assert result.metrics["type_f1"].values == [1.0, 0.0]
    assert result.metrics["ptlr"].values == [1.0, 0.0]
    assert result.examples == []


def test_attack_that_gave_sentences_once_is_a_sentence_attack() -> None:
    result = score(TWO, ok(0, [5, 6, 7]), ok(1, token_types=[5, 8, 9]))
    assert result.metrics["rouge1"].values == [1.0, 0.0]
    assert result.metrics["type_recall"].values == [1.0, 1.0]


def test_snapshot_without_entities_is_left_out_of_nerr_alone() -> None:
    truths = [truth([5, 6], entities=()), truth([5, 8])]
    result = score(truths, ok(0, [5, 6]), failed(1))
    assert result.metrics["nerr"].values == [0.0]
    assert result.metrics["nerr"].n == 1
    assert result.metrics["rouge1"].n == 2
    assert "nerr" not in score(truths[:1], ok(0, [5, 6])).metrics


def test_costs_come_from_the_record() -> None:
    result = score(
        TWO,
        ok(0, [5], seconds=2.0),
        failed(1).model_copy(update={"seconds": 60.0}),
        peak_mb=100.0,
        bytes_up=4096.0,
        epsilon=8.0,
    ).metrics
    assert result["seconds"].values == [2.0]
    assert (result["peak_mb"].mean, result["peak_mb"].low, result["peak_mb"].high) == (100,) * 3
    assert (result["bytes_up"].mean, result["epsilon"].mean) == (4096, 8)
    assert not {"seconds", "peak_mb", "bytes_up", "epsilon"} & score(TWO).metrics.keys()


def test_examples_show_every_snapshot_with_each_sentence_beside_its_partner() -> None:
    truths = [truth([5, 6], [7, 8]) for _ in range(3)]
    result = score(truths, ok(0, [7, 8], [1, 6, 5, 0]), failed(1), ok(2, [7]))
    shown = [(e.index, e.sentence, e.truth, e.recovered) for e in result.examples]
    assert shown == [
        *((0, 0, "w5 w6", "w6 w5"), (0, 1, "w7 w8", "w7 w8")),
        *((1, 0, "w5 w6", ""), (1, 1, "w7 w8", "")),
        *((2, 0, "w5 w6", ""), (2, 1, "w7 w8", "w7")),
    ]


def test_examples_of_a_large_batch_stop_after_its_first_sentences() -> None:
    large = truth(*([5 + place, 6] for place in range(EXAMPLES + 3)))
    shown = score([large], ok(0, [5, 6])).examples
    assert [example.sentence for example in shown] == list(range(EXAMPLES))


def test_a_stored_score_is_the_same_every_time() -> None:
    snapshots = ok(0, [5, 7]), ok(1, [9, 8, 5])
    assert score(TWO, *snapshots).model_dump_json() == score(TWO, *snapshots).model_dump_json()


@pytest.mark.parametrize("snapshots", [[ok(2, [5])], [ok(0, [5]), ok(0, [6])]])
def test_snapshots_that_the_task_does_not_have_are_refused(snapshots: list[SnapshotResult]) -> None:
    with pytest.raises(UserError, match="run the cell again"):
        score(TWO, *snapshots)
