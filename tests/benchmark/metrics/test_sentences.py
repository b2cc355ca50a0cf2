"""Sentence metrics of one batch: pairing, best of batch, exact match, strong leaks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.metrics.decoding import Reader
from benchmark.metrics.sentences import compare, published_rouge, read_batch, sentence_metrics
from benchmark.metrics.table import of_kind
from benchmark.results.measure import measure
from benchmark.spec import Recovery, TrueSentence, Truth

PAD, CLS, SEP = 0, 1, 2
TEXT = "[PAD] [CLS] [SEP] ann met bob in rome on 7 may with 3b cats and dogs"
WORDS = TEXT.split()
WRONG = [*range(len(WORDS), len(WORDS) + 9)]
"""Ids that no truth of these tests contains."""


def decode(ids: Sequence[int]) -> str:
    return " ".join(
        WORDS[i] if i < len(WORDS) else f"wrong{'abcdefghi'[i - len(WORDS)]}" for i in ids
    )


READER = Reader(decode, frozenset({PAD, CLS, SEP}))
IDS = st.integers(3, len(WORDS) - 1)
SENTENCE = st.lists(IDS, min_size=1, max_size=6)
BATCH = st.lists(SENTENCE, min_size=1, max_size=5)
WRONG_BATCH = st.lists(st.lists(st.sampled_from(WRONG), max_size=6), max_size=8)


def truth(*sentences: Sequence[int]) -> Truth:
    """Every word is an entity, so that NERR always applies."""
    return Truth(
        tuple(
            TrueSentence(tuple(ids), decode(ids), entities=tuple(decode([i]) for i in ids if i > 2))
            for ids in sentences
        )
    )


def scores(true: Sequence[Sequence[int]], recovered: Sequence[Sequence[int]]) -> dict[str, float]:
    return measure(truth(*true), Recovery(recovered), READER)


@settings(deadline=None)
@given(BATCH, st.randoms(use_true_random=False))
def test_a_perfect_recovery_scores_one_in_any_order(batch: list[list[int]], random: Random) -> None:
    recovered = [[CLS, *ids, SEP, PAD] for ids in batch]
    random.shuffle(recovered)
    result = scores(batch, recovered)
    assert result.pop("type_count_error") == 0
    assert set(result) >= {metric.name for metric in of_kind("recovery")} - {
        "type_count_error",
        "ptlr",
        "rouge1_with_specials",
    }
    assert set(result.values()) == {1.0}


@settings(deadline=None)
@given(BATCH, WRONG_BATCH, st.integers(1, 3))
def test_special_tokens_only_ever_raise_a_score(
    batch: list[list[int]], wrong: list[list[int]], specials: int
) -> None:
    """With as many extra words on both sides that are always right, for the same pairs."""
    comparison = compare(read_batch(truth(*batch), [*batch[:1], *wrong], READER))
    plain = sentence_metrics(comparison)["rouge1"]
    published = published_rouge(comparison, specials)["rouge1_with_specials"]
    assert plain - 1e-12 <= published <= 1.0
    assert published_rouge(comparison, 0) == {}


@settings(deadline=None)
@given(BATCH, WRONG_BATCH)
def test_an_all_wrong_guess_scores_zero(batch: list[list[int]], wrong: list[list[int]]) -> None:
    """Also with the special tokens on both sides, which public code rewards (FACTS)."""
    result = scores([[CLS, *ids, SEP] for ids in batch], [[CLS, *ids, SEP] for ids in wrong])
    result.pop("type_count_error")
    assert set(result.values()) == {0.0}


@settings(deadline=None)
@given(BATCH, BATCH)
def test_scores_lie_between_zero_and_one(
    batch: list[list[int]], recovered: list[list[int]]
) -> None:
    result = scores(batch, recovered)
    assert result.pop("type_count_error") >= 0
    assert all(0 <= value <= 1 for value in result.values())
    for variant in ("rouge1", "rouge2", "rougeL"):
        assert result[variant] <= result[f"best_{variant}"] + 1e-12


@settings(deadline=None)
@given(BATCH, BATCH, st.randoms(use_true_random=False))
def test_permuting_a_batch_changes_nothing(
    batch: list[list[int]], recovered: list[list[int]], random: Random
) -> None:
    answers, surplus = recovered[: len(batch)], recovered[len(batch) :]
    before = scores(batch, answers + surplus)
    for part in (batch, answers, surplus):
        random.shuffle(part)
    assert scores(batch, answers + surplus) == before


@settings(deadline=None)
@given(BATCH, BATCH, WRONG_BATCH)
def test_adding_wrong_sentences_raises_nothing(
    batch: list[list[int]], recovered: list[list[int]], wrong: list[list[int]]
) -> None:
    before, after = scores(batch, recovered), scores(batch, recovered + wrong)
    for result in (before, after):  # what the pairing maximises; ties may shift its three parts
        result["rouge"] = sum(result.pop(variant) for variant in ("rouge1", "rouge2", "rougeL"))
    for name in before.keys() - {"type_count_error", "nerr"}:
        assert after[name] <= before[name] + 1e-12, name


def test_special_tokens_in_both_texts_score_nothing() -> None:
    """FACTS: with [CLS] and [SEP] left in, an all-wrong 3-word guess scores ROUGE-1 40."""
    assert scores([[CLS, 3, 4, 5, SEP]], [[CLS, *WRONG[:3], SEP]])["rouge1"] == 0


def test_the_luckiest_pair_is_reported_only_under_best() -> None:
    result = scores([[3, 4, 5], [6, 7, 8]], [[3, 4, 5], WRONG[:3]])
    assert (result["rouge1"], result["best_rouge1"]) == (0.5, 1.0)
    assert (result["rougeL"], result["best_rougeL"]) == (0.5, 1.0)


def test_no_answer_serves_two_sentences() -> None:
    result = scores([[3, 4, 5], [3, 4, 5]], [[3, 4, 5]])
    assert (result["rouge2"], result["exact_match"]) == (0.5, 0.5)
    assert scores([[3, 4], [5, 6]], [[3, 4], [3, 4]])["exact_match"] == 0.5


def test_one_pairing_serves_all_three_variants() -> None:
    """Two answers compete for one truth: words in order win over the same number of words."""
    result = scores([[3, 4, 5, 6], WRONG[:4]], [[4, 3, 6, 5], [3, 4, 5, 6]])
    assert result["rouge1"] == result["rouge2"] == result["rougeL"] == 0.5


def test_only_the_first_sentences_answer_for_the_batch() -> None:
    result = scores([[3, 4, 5]], [WRONG[:3], [3, 4, 5]])
    assert result["rouge1"] == result["best_rouge1"] == result["exact_match"] == 0
    assert (result["sentence_recall"], result["sentence_precision"]) == (1, 0.5)
    assert result["type_recall"] == 0


def test_strong_leak_is_above_a_quarter() -> None:
    at_quarter = scores([[3, 4, 5, 6]], [[3, *WRONG[:3]]])
    above = scores([[3, 4, 5, 6]], [[3, *WRONG[:2]]])
    assert (at_quarter["sentence_recall"], at_quarter["sentence_precision"]) == (0, 0)
    assert (above["sentence_recall"], above["sentence_precision"]) == (1, 1)


def test_truth_of_special_tokens_alone_has_no_scores() -> None:
    assert scores([[CLS, SEP]], [[3, 4]]) == {}


def test_mean_over_the_batch_counts_missing_sentences() -> None:
    assert scores([[3], [4], [5], [6]], [[4]])["rouge1"] == pytest.approx(0.25)
