"""The fast engine against plain autograd, one candidate at a time, on every layer type."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmark.spec import Observation
from submissions.blocks.gradient_matching import entries as entries_module
from submissions.blocks.gradient_matching.build import build_matcher, random_points, samples_of
from submissions.blocks.gradient_matching.distances import (
    L2L1,
    Cosine,
    Distance,
    SquaredL2,
    layer_factors,
)
from submissions.blocks.gradient_matching.entries import Differences, Measure, Products, Target
from submissions.blocks.gradient_matching.factored import Thin, thin
from submissions.blocks.gradient_matching.gradients import Gradient, Outer, Paired, Total
from submissions.blocks.gradient_matching.matcher import Matcher
from submissions.blocks.gradient_matching.measures import measured
from submissions.blocks.gradient_matching.plain import PlainMatcher, SimulatingMatcher
from submissions.blocks.gradient_matching.problem import Problem, layout_of, problems_of
from submissions.blocks.gradient_matching.samples import Points
from submissions.blocks.gradient_matching.traced import TracedMatcher, UnknownLayer
from tests.submissions.test_matching_models import LANGUAGE_MODELS, MODELS, make_public, observe

pytestmark = pytest.mark.usefixtures("one_thread")

DISTANCES = (SquaredL2(), L2L1(0.01), L2L1(0.01, squared=False), Cosine())
SENTENCES = ("word1 word2 word3 word4 word5", "word6 word7 word8", "word9 word1 word9 word2")
OTHERS = ("word5 word7", "word11 word12 word13 word14", "word1 word20")
CANDIDATES = 3


def problems(name: str, batch: int, optimize: bool = False) -> list[Problem]:
    public = make_public(name)
    observations = [observe(public, *texts[:batch]) for texts in (SENTENCES, OTHERS)]
    return [p for i, o in enumerate(observations) for p in problems_of(o, i, optimize)]


def matchers(
    name: str, batch: int, distance: Distance, optimize: bool = False
) -> tuple[TracedMatcher, PlainMatcher]:
    several = problems(name, batch, optimize)
    samples = samples_of(several, layout_of(several), optimize)
    traced, note = build_matcher(several, samples, distance)
    assert isinstance(traced, TracedMatcher), note
    return traced, PlainMatcher(samples, traced.targets, distance, traced.factors)


def points_for(matcher: Matcher) -> Points:
    """Three candidates a problem, with differentiable embeddings and label logits."""
    one = random_points(matcher.samples)
    generator = torch.Generator().manual_seed(7)

    def several(values: Tensor) -> Tensor:
        copies = values.repeat(1, CANDIDATES, *(1 for _ in values.shape[2:]))
        noise = torch.randn(copies.shape, generator=generator)
        return (copies + 0.3 * noise).requires_grad_()

    labels = one.label_logits
    return Points(several(one.embeddings), None if labels is None else several(labels))


def evaluate(matcher: Matcher, points: Points) -> tuple[Tensor, list[Tensor]]:
    inputs = [points.embeddings] + ([] if points.label_logits is None else [points.label_logits])
    with matcher:
        losses = matcher.losses(points, differentiable=True)
        return losses.detach(), list(torch.autograd.grad(losses.sum(), inputs))


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("distance", DISTANCES, ids=("l2", "l2l1", "l2l1-norm", "cosine"))
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_losses_and_input_gradients_agree(name: str, batch: int, distance: Distance) -> None:
    traced, plain = matchers(name, batch, distance)
    points = points_for(traced)
    fast, fast_gradients = evaluate(traced, points)
    slow, slow_gradients = evaluate(plain, points)
    assert fast.shape == (2, CANDIDATES)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-7)
    assert relative(fast_gradients[0], slow_gradients[0]) < 1e-4
    assert fast.argmin(dim=1).tolist() == slow.argmin(dim=1).tolist()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_optimized_labels_agree(name: str) -> None:
    traced, plain = matchers(name, 1, SquaredL2(), optimize=True)
    points = points_for(traced)
    fast, fast_gradients = evaluate(traced, points)
    slow, slow_gradients = evaluate(plain, points)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-7)
    for found, expected in zip(fast_gradients, slow_gradients, strict=True):
        assert relative(found, expected) < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_the_true_embeddings_have_no_distance(name: str) -> None:
    """In language models too: there the embeddings suggest the true labels."""
    if name == "bilstm":
        pytest.skip("as any classifier")
    public = make_public(name)
    observation = observe(public, SENTENCES[0])
    several = problems_of(observation, 0, False)
    samples = samples_of(several, layout_of(several), False)
    if name in LANGUAGE_MODELS:  # a random table has no clear neighbors
        samples = replace(samples, vocabulary=replace(samples.vocabulary, sharpness=300.0))
    matcher, _ = build_matcher(several, samples, Cosine())
    ids = public.tokenizer(SENTENCES[0], add_special_tokens=False).input_ids
    table = samples.vocabulary.table
    truth = table[torch.tensor([1, *ids, 2])][None, None, None]
    with matcher:
        near = matcher.losses(Points(truth), differentiable=False)
        far = matcher.losses(Points(truth.flip(3)), differentiable=False)
    assert near.item() < 1e-4 < far.item()


def pruned(observation: Observation, ratio: float) -> Observation:
    """The same update with all but its largest entries set to zero."""
    entries = torch.cat([tensor.flatten() for tensor in observation.update.tensors.values()])
    limit = entries.abs().quantile(ratio)
    left = {n: t * (t.abs() >= limit) for n, t in observation.update.tensors.items()}
    return replace(observation, update=replace(observation.update, tensors=left))


@pytest.mark.parametrize("distance", DISTANCES, ids=("l2", "l2l1", "l2l1-norm", "cosine"))
def test_a_sparse_update_is_compared_where_it_says_something(distance: Distance) -> None:
    public = make_public("bert")
    several = problems_of(pruned(observe(public, SENTENCES[0]), 0.9), 0, False)
    samples = samples_of(several, layout_of(several), False)
    traced, note = build_matcher(several, samples, distance)
    assert isinstance(traced, TracedMatcher), note
    ids = public.tokenizer(SENTENCES[0], add_special_tokens=False).input_ids
    truth = samples.vocabulary.table[torch.tensor([1, *ids, 2])][None, None, None]
    plain = PlainMatcher(samples, traced.targets, distance, traced.factors, traced.sparse)
    for matcher in (traced, plain):
        with matcher:
            near = matcher.losses(Points(truth), differentiable=False).item()
            far = matcher.losses(Points(truth.flip(3)), differentiable=False).item()
        assert near < 1e-3 * far


def test_chunks_do_not_change_scores() -> None:
    traced, _ = matchers("bert", 1, Cosine())
    points = points_for(traced)
    with traced:
        whole = traced.losses(points, differentiable=False)
        chunked = traced.scores(points, budget=1)
    assert traced.candidates_at_once(1) == 1
    torch.testing.assert_close(whole, chunked)


def test_parameters_that_no_text_moves_are_left_out() -> None:
    """The key bias of attention has no gradient, and its rounding noise has no direction."""
    traced, _ = matchers("bert", 1, Cosine())
    assert not [name for name in traced.factors if name.endswith("key.bias")]
    assert [name for name in traced.factors if name.endswith("query.bias")]
    assert not [name for name in traced.factors if "word_embeddings" in name]


class Scale(nn.Module):
    """A layer that no rule knows."""

    def __init__(self) -> None:
        super().__init__()
        self.amount = nn.Parameter(torch.tensor([1.5]))

    def forward(self, values: Tensor) -> Tensor:
        return values * self.amount


def test_an_unknown_layer_falls_back_to_plain_autograd() -> None:
    public = make_public("bert")
    public.model.classifier = nn.Sequential(Scale(), public.model.get_submodule("classifier"))
    several = problems_of(observe(public, SENTENCES[0]), 0, False)
    samples = samples_of(several, layout_of(several), False)
    matcher, note = build_matcher(several, samples, Cosine())
    assert isinstance(matcher, PlainMatcher)
    assert "Scale has no rule" in note
    assert "classifier.0.amount" in matcher.factors
    with pytest.raises(UnknownLayer):
        TracedMatcher(samples, matcher.targets, Cosine(), matcher.factors)


def test_a_rule_that_does_not_fit_is_noticed() -> None:
    """A linear layer whose output is changed in place looks like one but is not."""
    public = make_public("bert")
    dense = public.model.get_submodule("bert.encoder.layer.0.intermediate.dense")
    dense.register_forward_hook(lambda module, given, output: output.mul(2.0), prepend=True)
    several = problems_of(observe(public, SENTENCES[0]), 0, False)
    samples = samples_of(several, layout_of(several), False)
    matcher, note = build_matcher(several, samples, SquaredL2())
    assert isinstance(matcher, PlainMatcher), "the hook runs first, so the rule misses the factor"
    assert "do not fit" in note


def test_the_model_is_left_as_it_was() -> None:
    traced, plain = matchers("gpt2", 1, Cosine())
    model = traced.samples.model
    next(iter(model.parameters())).requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.parameters()]
    for matcher in (traced, plain):
        evaluate(matcher, points_for(traced))
        assert [parameter.requires_grad for parameter in model.parameters()] == before
    assert not any(module._forward_hooks for module in model.modules())


def test_simulated_steps_meet_the_true_difference() -> None:
    """A batch treated as one gradient is near, simulated steps are nearer.

    What is left is the client's word embedding, which moves between its steps.
    """
    public = make_public("bert")
    observation = observe(public, *SENTENCES, local_steps=3)
    assert observation.update.kind == "difference"
    several = problems_of(observation, 0, False)
    samples = samples_of(several, layout_of(several), False)
    batch, _ = build_matcher(several, samples, SquaredL2())
    simulated, note = build_matcher(several, samples, SquaredL2(), simulate=True)
    assert isinstance(simulated, SimulatingMatcher)
    assert "3 local steps" in note
    rows = [public.tokenizer(text).input_ids for text in SENTENCES]
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [2] * (width - len(row)) for row in rows])
    truth = Points(samples.vocabulary.table[ids][None, None])
    with batch:
        as_batch = batch.losses(truth, differentiable=False).item()
    with simulated:
        exact = simulated.losses(truth, differentiable=False).item()
    assert exact < 0.1 * as_batch


def drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


FEW, MANY = 5, 40
"""Tokens of a candidate: fewer and more than make writing a gradient out the larger work."""
SPARSE = drawn(2, 24, 56) * (drawn(2, 56, 24).mT > 0)
BOTH = (Products(), Differences())


@pytest.mark.parametrize(
    ("gradient", "target", "how"),
    [
        *(
            (Outer(drawn(2, 3, tokens, 24), drawn(2, 3, tokens, 56)), target, how)
            for tokens in (FEW, MANY)
            for target in (Target(drawn(2, 24, 56)), Target(SPARSE, SPARSE != 0))
            for how in BOTH
        ),
        (
            Outer(drawn(2, 3, FEW, 24), drawn(2, 3, FEW, 56)),
            Thin(drawn(2, 4, 24), drawn(2, 4, 56)),
            Products(),
        ),
        *((Paired(drawn(2, 3, 5, 7), drawn(2, 3, 5, 7)), Target(drawn(2, 7)), h) for h in BOTH),
        *((Total(drawn(2, 3, FEW, 7)), Target(drawn(2, 7)), how) for how in BOTH),
    ],
)
@pytest.mark.parametrize("at_once", [1, 4 * 24 * 56])
def test_measures_and_their_derivatives(
    gradient: Gradient,
    target: Target | Thin,
    how: Measure,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As autograd has them for the gradient written out, however many are written at a time."""
    monkeypatch.setattr(entries_module, "_AT_ONCE", at_once)
    factors = [factor.requires_grad_() for factor in vars(gradient).values()]
    found = measured([gradient], [target], how)
    plain = Target(target.left.mT @ target.right) if isinstance(target, Thin) else target
    expected = how.of(gradient.dense(), plain)
    torch.testing.assert_close((found[0][0], found[1][0]), expected)
    torch.testing.assert_close(gradient.square(), gradient.dense().square().flatten(2).sum(dim=2))
    weights = drawn(2, 2, 3)
    fast = (weights[0] * found[0][0] + weights[1] * found[1][0]).sum()
    slow = (weights[0] * expected[0] + weights[1] * expected[1]).sum()
    torch.testing.assert_close(
        torch.autograd.grad(fast, factors), torch.autograd.grad(slow, factors)
    )


@pytest.mark.parametrize("how", BOTH)
def test_a_factor_that_two_layers_share_has_both_derivatives(how: Measure) -> None:
    left, right = drawn(1, 2, FEW, 24).requires_grad_(), drawn(1, 2, FEW, 24).requires_grad_()
    other = drawn(1, 2, FEW, 56).requires_grad_()
    gradients = [Outer(left, right), Total(left), Outer(other, right)]
    targets = [Target(drawn(1, 24, 24)), Target(drawn(1, 24)), Target(drawn(1, 56, 24))]
    fast = torch.stack(measured(gradients, targets, how)).sum()
    pairs = zip(gradients, targets, strict=True)
    slow = torch.stack([torch.stack(how.of(g.dense(), t)) for g, t in pairs]).sum()
    torch.testing.assert_close(
        torch.autograd.grad(fast, (left, right, other)),
        torch.autograd.grad(slow, (left, right, other)),
    )


def test_a_gradient_of_few_tokens_is_thin_and_noise_makes_it_thick() -> None:
    value = drawn(2, FEW, 96).mT @ drawn(2, FEW, 128)
    few = thin(value, FEW)
    assert few is not None
    torch.testing.assert_close(few.left.mT @ few.right, value)
    assert thin(value, 48) is None, "nothing is saved"
    assert thin(value + 1e-3 * drawn(2, 96, 128), FEW) is None


@pytest.mark.parametrize("distance", DISTANCES, ids=("l2", "l2l1", "l2l1-norm", "cosine"))
def test_some_of_the_problems(distance: Distance) -> None:
    for matcher in matchers("bert", 1, distance):
        points = points_for(matcher)
        with matcher:
            both = matcher.losses(points, differentiable=False)
            second = matcher.only([1]).losses(Points(points.embeddings[1:]), differentiable=False)
            assert matcher.only([0, 1]) is matcher
        torch.testing.assert_close(second, both[1:])


def test_linear_weighting_falls_from_input_to_output() -> None:
    names = ["bert.embeddings.position", "bert.layer.0.a", "bert.layer.0.b", "classifier.weight"]
    assert layer_factors(names, "none") == [1.0] * 4
    first, second, third, last = layer_factors(names, "linear")
    assert first == 1.0 > second == third > last > 0
