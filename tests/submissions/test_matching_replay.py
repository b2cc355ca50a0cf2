"""Recorded steps against the same steps computed anew, and written-out second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation

from submissions.attacks.lamp_cos import LampCos
from submissions.blocks.gradient_matching import replay as replay_module
from submissions.blocks.gradient_matching import search as search_module
from submissions.blocks.gradient_matching.build import build_matcher, random_points, samples_of
from submissions.blocks.gradient_matching.curvature import written_out
from submissions.blocks.gradient_matching.distances import L2L1, Cosine, Distance
from submissions.blocks.gradient_matching.problem import layout_of, problems_of
from submissions.blocks.gradient_matching.replay import Replay, Unrecordable
from submissions.blocks.gradient_matching.samples import Points
from tests.submissions.test_matching_models import MODELS, make_public, observe

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ("word1 word2 word3 word4 word5", "word6 word7 word8")


@pytest.mark.parametrize("distance", [Cosine(), L2L1(0.01)], ids=("cosine", "l2l1"))
@pytest.mark.parametrize("name", MODELS)
def test_a_replayed_step_is_the_same_to_the_bit(name: str, distance: Distance) -> None:
    public = make_public(name)
    several = [p for i, t in enumerate(TEXTS) for p in problems_of(observe(public, t), i, False)]
    samples = samples_of(several, layout_of(several), False)
    matcher, _ = build_matcher(several, samples, distance)

    def step(embeddings: Tensor) -> Sequence[Tensor]:
        leaf = embeddings.detach().requires_grad_()
        losses = matcher.losses(Points(leaf), differentiable=True)
        return losses.detach(), *torch.autograd.grad(losses.sum(), leaf)

    start = random_points(samples).embeddings
    with matcher:
        replayed = Replay(step, start)
        for scale in (1.0, 1.7, -0.4):
            found, expected = replayed(scale * start), step(scale * start)
            assert all(map(torch.equal, found, expected))
    assert not all(map(torch.equal, replayed(start), expected)), "the input makes a difference"


def test_constants_that_are_overwritten_begin_anew() -> None:
    table = torch.ones(3)

    def count(values: Tensor) -> Sequence[Tensor]:
        sums = torch.zeros(3)
        sums[0] = 5.0
        sums += values
        return sums, (sums * table)[:2]

    replayed = Replay(count, torch.ones(3))
    for _ in range(2):
        sums, few = replayed(torch.tensor([1.0, 2.0, 3.0]))
        assert sums.tolist() == [6.0, 2.0, 3.0]
        assert few.tolist() == [6.0, 2.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda values: (values * 2 if values.sum() > 0 else values * 3,),
        lambda values: (values[values > 0],),
        lambda values: (values + torch.rand(3),),
    ],
    ids=("branch", "shape", "random"),
)
def test_what_depends_on_numbers_or_chance_is_refused(function: Any) -> None:
    with pytest.raises(Unrecordable):
        Replay(function, torch.ones(3))


def test_a_constant_that_changes_after_its_use_is_noticed() -> None:
    """Its repetition would begin with what the first time has ended with."""

    def unsteady(values: Tensor) -> Sequence[Tensor]:
        state = torch.zeros(3)
        before = values + state
        state.add_(1)
        return before, values * state

    with pytest.raises(Unrecordable, match="other inputs"):
        Replay(unsteady, torch.ones(3))


def test_what_takes_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "_MOST_BYTES", 30)
    with pytest.raises(Unrecordable, match="memory"):
        Replay(lambda values: (values * 2 + 1 - values,), torch.ones(3))


def test_a_search_finds_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    public = make_public("bert")
    attack = LampCos(
        steps=60, initial_candidates=3, initial_permutations=3, discrete_candidates=8,
        discrete_every=20,
    )  # fmt: skip
    recorded = attack.recover(observe(public, TEXTS[0]))
    monkeypatch.setattr(search_module, "_WORTH_RECORDING", 61)
    assert attack.recover(observe(public, TEXTS[0])) == recorded


def test_optimized_labels_are_replayed_too() -> None:
    attack = LampCos(steps=60, labels="optimized", discrete="none", initial_candidates=2)
    public = make_public("bert")
    assert attack.recover(observe(public, TEXTS[0])).sentences


class Smooth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gelu, self.linear = nn.LayerNorm(6), GELUActivation(), nn.Linear(6, 6)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, values: Tensor) -> Tensor:
        result: Tensor = self.norm(self.gelu(self.linear(self.norm(values))) + values)
        return result


def test_second_derivatives_are_those_of_autograd() -> None:
    torch.manual_seed(0)
    model = Smooth().double().requires_grad_(False)
    values = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    mixed, other = torch.randn(2, 2, 3, 6, dtype=torch.float64)

    def twice() -> tuple[Tensor, Tensor]:
        slope = torch.autograd.grad((model(values) * mixed).sum(), values, create_graph=True)[0]
        return slope, torch.autograd.grad((slope.sin() * other).sum(), values)[0]

    expected = twice()
    asked = iter(range(100))
    with written_out(model, lambda: next(asked) >= 0):
        found = twice()
    assert next(asked) == 3, "both norms and the GELU were asked"
    torch.testing.assert_close(found, expected)
    assert "forward" not in model.norm.__dict__, "the model is left as it was"
