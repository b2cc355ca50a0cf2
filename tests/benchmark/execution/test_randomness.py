"""Seeding: every bit of a secret seed counts, and what is drawn does not tell what comes next."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from scipy import stats

from benchmark.execution.randomness import FIRST_WORD, WORDS, fill, seed_process
from submissions.blocks import noise


def filled(seed: int) -> torch.Generator:
    generator = torch.Generator()
    fill(generator, seed)
    return generator


def test_every_bit_of_the_seed_counts() -> None:
    """With `manual_seed` alone, seeds that agree in 32 bits draw the same numbers."""
    first, again = (torch.Generator().manual_seed(5 + high) for high in (0, 1 << 32))
    assert torch.equal(torch.randn(8, generator=first), torch.randn(8, generator=again))
    seeds = [5, *(5 + (1 << bit) for bit in (31, 32, 33, 62, 63, 200, 255))]
    drawn = {tuple(torch.randn(8, generator=filled(seed)).tolist()) for seed in seeds}
    assert len(drawn) == len(seeds)
    assert torch.equal(
        torch.randn(8, generator=filled(1 << 200)), torch.randn(8, generator=filled(1 << 200))
    )


def test_the_state_is_that_of_a_mersenne_twister() -> None:
    """Beside numpy's, which says where its words are: the layout of torch's state is no promise."""
    state = filled(7).get_state().numpy().view(np.uint64)
    twister = np.random.MT19937()
    words = state[FIRST_WORD : FIRST_WORD + WORDS].astype(np.uint32)
    twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": WORDS}}
    expected = twister.random_raw(2000) & 0xFFFFF
    drawn = torch.empty(2000, dtype=torch.int64).random_(0, 2**20, generator=filled(7))
    assert drawn.tolist() == expected.tolist()


def test_a_process_repeats_itself_and_its_generators_differ() -> None:
    def draw(seed: int) -> tuple[float, float, float]:
        seed_process(seed)
        return random.random(), float(np.random.random()), float(torch.rand(()))

    assert draw(3) == draw(3)
    assert len({*draw(3), *draw(3 + (1 << 200))}) == 6


@pytest.mark.parametrize("size", [1, 7, 10_000, noise.CHUNK + 3])
def test_one_key_whatever_is_drawn(size: int) -> None:
    """What is seen of the noise says nothing of the generator, which moved by one key."""
    generator, other = filled(1), filled(1)
    drawn = noise.normal_like(torch.zeros(size), generator)
    noise.uniform_like(torch.zeros(2, 3), other)
    assert torch.equal(generator.get_state(), other.get_state())
    assert drawn.shape == (size,)
    alike = noise.normal_like(torch.zeros(7), filled(1))
    assert torch.equal(drawn[:7], alike[:size])


def test_the_numbers_have_their_distributions() -> None:
    normal = noise.normal_like(torch.zeros(300, 333), filled(2))
    uniform = noise.uniform_like(torch.zeros(300, 333), filled(2))
    assert normal.dtype == torch.float32
    assert stats.kstest(normal.flatten().numpy(), "norm").pvalue > 0.01
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 0.01
    pairs = normal.flatten().view(-1, 2)
    assert abs(float(np.corrcoef(pairs.abs().T.numpy())[0, 1])) < 0.02
    assert noise.normal_like(torch.zeros(0), filled(2)).shape == (0,)
    double = noise.normal_like(torch.zeros(5, dtype=torch.float64), filled(2))
    assert double.dtype == torch.float64
