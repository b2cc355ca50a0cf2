"""Label attacks: flattening against a plain sum, and few small problems against many programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.spec import Observation, Public, Role, Roles, Update
from submissions.attacks import flat_chat
from submissions.attacks.flat_chat import FlatChat
from submissions.blocks.output_layer.gradient import row_sums
from submissions.blocks.output_layer.mixture import fit_mixture
from submissions.blocks.output_layer.separability import (
    coordinates,
    separable_exactly,
    separable_rows,
)
from tests.submissions.test_rlg import output_gradient, sizes
from tests.timing.ratios import in_turn, only_timed
from tests.timing.test_matching import peak_memory

SAMPLED = 3
"""Labels, and as many other tokens, that are tried with an exact program."""


@pytest.fixture(scope="module")
def gradient() -> torch.Tensor:
    """As large as that of GPT-2, with 400 rows that stand out."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(50_257, 768, generator=generator) * 1e-4
    values[:400] += torch.randn(400, 1, generator=generator) * 1e-3
    return values


def test_flattening_reads_the_gradient_once(
    benchmark: BenchmarkFixture, gradient: torch.Tensor
) -> None:
    """At most 1.5 times one plain sum over the same matrix."""
    ratio, found, total = in_turn(
        benchmark, lambda: row_sums(gradient), lambda: gradient.sum(), rounds=25
    )
    plain = gradient.double().sum(dim=1)
    assert float(total) == pytest.approx(float(plain.sum()), abs=1e-2)
    assert float(torch.cosine_similarity(found.double(), plain, dim=0)) > 1 - 1e-6
    assert ratio >= 1 / 1.5


def test_the_whole_attack_is_little_more_than_the_mixture(
    benchmark: BenchmarkFixture, gradient: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than three plain sums on top of the fit, which is done beforehand here."""
    observation = observe(gradient)
    attack = FlatChat(size="oracle")
    attack.prepare(observation.public)
    mixture = fit_mixture(row_sums(gradient), observation.seed, 10)
    monkeypatch.setattr(flat_chat, "fit_mixture", lambda *_: mixture)
    ratio, found, _ = in_turn(
        benchmark, lambda: attack.recover(observation), lambda: gradient.sum(), rounds=25
    )
    assert found.token_types is not None
    assert len(found.token_types) == 400
    assert ratio > 1 / 3


def test_separability_of_a_translation_model(benchmark: BenchmarkFixture) -> None:
    """At least 50 times as fast as a program a token, same answers, below 2 GiB."""
    only_timed(benchmark)  # tests/submissions/test_rlg.py compares the answers
    gradient, labels = output_gradient(16_594, 512, 100, 100)
    others = [i for i in range(9000, 9100) if i not in labels]
    sampled = [*sorted(labels)[:SAMPLED], *others[:SAMPLED]]
    rows = coordinates(gradient)
    with peak_memory() as peak:
        ratio, found, exact = in_turn(
            benchmark,
            lambda: separable_rows(coordinates(gradient), sizes(gradient)),
            lambda: [separable_exactly(rows, number) for number in sampled],
            rounds=1,
            work=len(gradient) / len(sampled),
        )
    assert set(np.flatnonzero(found.separable)) == labels
    assert found.certified.all()
    assert exact == found.separable[sampled].tolist()
    assert peak[0] < 2 << 30
    assert ratio >= 50


def observe(gradient: torch.Tensor) -> Observation:
    """The gradient as an attack sees it, with as much of a model round it as is asked for."""
    layer: Any = torch.nn.Linear(768, 50_257, bias=False)
    tokenizer: Any = Words()
    public = Public(
        task="tests/timing", objective=None, model=layer, tokenizer=tokenizer,  # type: ignore[arg-type]
        roles=Roles({Role.OUTPUT: "weight"}, tied=False), batch_size=1, batch_tokens=None,
        max_tokens=40, grants=frozenset(), text=(), prior=None, device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    return Observation(public, Update({"weight": gradient}), 1, seed=1, type_count=400)


class Words:
    """A vocabulary of GPT-2's size."""

    all_special_ids = (50_256,)

    def __len__(self) -> int:
        return 50_257

    def get_vocab(self) -> dict[str, int]:
        return {}
