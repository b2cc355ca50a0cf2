"""The fast ROUGE equals rouge-score, its reference."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from benchmark.metrics.decoding import Sentence
from benchmark.metrics.rouge import VARIANTS, longest_common_subsequence, rouge_matrix

SCORER = rouge_scorer.RougeScorer(list(VARIANTS))
WORDS = ["the", "cat", "sat", "on", "mat"]
TEXTS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.text(max_size=30),
)


def sentence(text: str, ids: tuple[int, ...] = ()) -> Sentence:
    return Sentence(ids, text)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_equals_rouge_score(true: str, recovered: str) -> None:
    reference = SCORER.score(true, recovered)
    for variant in VARIANTS:
        ours = rouge_matrix(variant, [sentence(true)], [sentence(recovered)])[0, 0]
        assert ours == pytest.approx(reference[variant].fmeasure)


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_longest_common_subsequence_equals_the_plain_table(
    first: list[str], second: list[str]
) -> None:
    table = rouge_scorer._lcs_table(first, second)
    assert longest_common_subsequence(first, second) == table[-1][-1]


@pytest.mark.parametrize(
    "text", ["Äpfel über Öl für München", "?!...", "", "日本語", "\ufffd", "naïve"]
)
def test_odd_text_does_not_crash_and_stays_in_range(text: str) -> None:
    for variant in VARIANTS:
        score = rouge_matrix(variant, [sentence(text)], [sentence("für Äpfel"), sentence(text)])
        assert ((score >= 0) & (score <= 1)).all()


@pytest.mark.parametrize("text", ["Yes", "日本語", "?!"])
def test_equal_ids_score_one_where_rouge_score_sees_nothing(text: str) -> None:
    """One word has no bigram and a Japanese sentence no word at all for rouge-score."""
    assert SCORER.score(text, text)["rouge2"].fmeasure == 0
    same = sentence(text, (7,))
    for variant in VARIANTS:
        assert rouge_matrix(variant, [same], [same])[0, 0] == 1


def test_two_empty_sentences_are_no_match() -> None:
    for variant in VARIANTS:
        assert rouge_matrix(variant, [sentence("")], [sentence("")])[0, 0] == 0


def test_threshold_value_is_exact() -> None:
    """One word shared of 3 and 5: exactly 0.25, which 2PR / (P + R) rounds upwards."""
    score = rouge_matrix("rougeL", [sentence("a b c")], [sentence("a d e f g")])[0, 0]
    assert score == 0.25


def test_a_batch_of_128_takes_seconds_at_most() -> None:
    generator = np.random.default_rng(0)
    draws = generator.integers(0, 300, size=(256, 30))
    texts = [sentence(" ".join(f"w{i}" for i in row)) for row in draws]
    start = time.perf_counter()
    for variant in VARIANTS:
        rouge_matrix(variant, texts[:128], texts[128:])
    assert time.perf_counter() - start < 5
