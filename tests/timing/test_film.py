"""FILM's beam search against the plain way: ratios measured in one run, single thread."""

from __future__ import annotations

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from transformers import GPT2Config, GPT2LMHeadModel

from submissions.blocks.film.beam import Penalties, Plan, beam_search
from submissions.blocks.film.language import CachedContinuations
from tests.submissions.film_setup import PlainContinuations
from tests.timing.ratios import in_turn, only_timed

WORDS = 200
LONGEST = 6
"""Longer sentences would favor the cache even more, and take the plain way minutes."""


def test_beam_search(benchmark: BenchmarkFixture) -> None:
    """At least eight times as fast on GPT-2's shape, and the same beams."""
    only_timed(benchmark)  # tests/submissions/test_film.py compares the beams
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()  # 12 layers, 768 wide, 50,257 words
    words = torch.randperm(50_000)[:WORDS].sort().values
    end = 50_256
    plan = Plan(
        words=words, starts=torch.ones(WORDS, dtype=torch.bool), start=end, longest=LONGEST,
        is_length=False, beams=32, groups=8, penalties=Penalties(2, 100.0, 2.0, 0.1),
        length_power=1.0,
    )  # fmt: skip

    ratio, found, expected = in_turn(
        benchmark,
        lambda: beam_search(CachedContinuations(model, words, end), plan),
        lambda: beam_search(PlainContinuations(model, words, end), plan),
        rounds=1,
    )
    assert [sentence for _, sentence in found] == [sentence for _, sentence in expected]
    assert [s for s, _ in found] == pytest.approx([s for s, _ in expected], abs=1e-3)
    assert ratio >= 8
