"""The matching engine against plain autograd: ratios, each measured in one run."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.spec import Client, Observation, Public, Recovery
from submissions.attacks.lamp_cos import LampCos
from submissions.blocks.gradient_matching import attack as attack_module
from submissions.blocks.gradient_matching import lamp as lamp_module
from submissions.blocks.gradient_matching import search as search_module
from submissions.blocks.gradient_matching.build import build_matcher, random_points, samples_of
from submissions.blocks.gradient_matching.discrete import OPERATORS
from submissions.blocks.gradient_matching.distances import Cosine
from submissions.blocks.gradient_matching.matcher import Matcher
from submissions.blocks.gradient_matching.plain import PlainMatcher
from submissions.blocks.gradient_matching.problem import layout_of, problems_of
from submissions.blocks.gradient_matching.rearrange import Fluency, reordered
from submissions.blocks.gradient_matching.samples import Points
from submissions.blocks.gradient_matching.search import Search
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES
from tests.submissions.test_flat_chat import public_of
from tests.submissions.test_matching_models import (
    VOCABULARY,
    RisingPrior,
    make_batch,
    make_tokenizer,
)
from tests.timing.ratios import in_turn, only_timed

TOKENS = 14
SHAPES = ((12, 768), (6, 384))


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def observation(request: pytest.FixtureRequest) -> Observation:
    """One sentence of 14 tokens on a BERT of the given layers and width."""
    layers, width = request.param
    if width > 384 and request.config.getoption("benchmark_disable"):
        pytest.skip("the smaller model shows the same answers: make timing takes both")
    return observe(make_public(layers, width, heads=width // 64))


def make_public(layers: int, width: int, heads: int) -> Public:
    torch.manual_seed(0)
    eager: dict[str, Any] = {"attn_implementation": "eager"}
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=4 * width, **eager,
    )  # fmt: skip
    model: Any = BertForSequenceClassification(config).eval()
    return Public(
        task="tests/timing", objective=OBJECTIVES["classification"], model=model,
        tokenizer=make_tokenizer(False), roles=roles(model), batch_size=1, batch_tokens=None,
        max_tokens=40, grants=frozenset(), text=(), prior=RisingPrior(),
        device=torch.device("cpu"), seed=0,
    )  # fmt: skip


def observe(public: Public, first: int = 0, tokens: int = TOKENS) -> Observation:
    text = " ".join(f"word{(first + 3 * i) % 40}" for i in range(tokens - 2))
    batch = make_batch(public, [text])
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    update = client.update(batch, [name for name, _ in public.model.named_parameters()])
    return Observation(public, update, 1, seed=first, labels=(0,), lengths=(tokens,))


def both(observation: Observation) -> tuple[Matcher, PlainMatcher]:
    problems = problems_of(observation, 0, False)
    samples = samples_of(problems, layout_of(problems), False)
    fast, note = build_matcher(problems, samples, Cosine())
    assert not note
    return fast, PlainMatcher(samples, fast.targets, fast.distance, fast.factors)


def test_scoring_candidates(benchmark: BenchmarkFixture, observation: Observation) -> None:
    """At least four times as many candidates a second."""
    fast, plain = both(observation)
    several = random_points(fast.samples).embeddings.repeat(1, 40, 1, 1, 1)
    few = Points(several[:, :4])

    def score(matcher: Matcher, points: Points) -> Tensor:
        with matcher:
            return matcher.scores(points, 1 << 30)

    ratio, found, expected = in_turn(
        benchmark, lambda: score(fast, Points(several)), lambda: score(plain, few), work=10
    )
    assert torch.allclose(found[:, :4], expected, atol=1e-4)
    assert ratio >= 4


def test_a_continuous_step(benchmark: BenchmarkFixture, observation: Observation) -> None:
    """At least 1.3 times as fast with its second derivatives."""
    fast, plain = both(observation)
    point = random_points(fast.samples).embeddings.requires_grad_()

    def step(matcher: Matcher) -> Tensor:
        with matcher:
            losses = matcher.losses(Points(point), differentiable=True)
            return torch.autograd.grad(losses.sum(), point)[0]

    ratio, found, expected = in_turn(benchmark, lambda: step(fast), lambda: step(plain), rounds=6)
    assert torch.allclose(found, expected, atol=1e-3 * float(expected.abs().max()))
    assert ratio >= 1.3


def test_a_whole_recovery(
    benchmark: BenchmarkFixture, observation: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least twice as fast, start, steps and discrete phases together."""
    attack = LampCos(
        steps=12, initial_candidates=10, initial_permutations=10, discrete_every=4,
        discrete_candidates=12,
    )  # fmt: skip

    def slow() -> Recovery:
        with monkeypatch.context() as patched:
            patched.setattr(attack_module, "build_matcher", plain_matcher)
            return attack.recover(observation)

    ratio, found, expected = in_turn(benchmark, lambda: attack.recover(observation), slow)
    assert found.sentences == expected.sentences
    assert ratio >= 2


def test_memory_of_200_candidates(observation: Observation) -> None:
    """Less than 3 GiB on top of the model and the update."""
    gc.collect()
    with peak_memory() as peak:
        fast, _ = both(observation)
        several = Points(random_points(fast.samples).embeddings.repeat(1, 200, 1, 1, 1))
        with fast:
            fast.scores(several, 1 << 30)
    print(f"\n200 candidates take {peak[0] / 2**30:.2f} GiB")
    assert 0 < peak[0] < 3 << 30


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Watches how far this process grows meanwhile, in bytes."""
    process, ended, peak = psutil.Process(), threading.Event(), [0]
    before = process.memory_info().rss

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], process.memory_info().rss - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


@pytest.mark.parametrize(
    ("count", "recorded", "least"), [(8, False, 4), (8, True, 2.5), (32, True, 3)]
)
def test_snapshots_together(
    benchmark: BenchmarkFixture,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    recorded: bool,
    least: float,
) -> None:
    """Times as fast as one by one on `mini/cola`, in a fifth of its steps.

    Our aim is four from eight on. It is reached against one by one with steps that are not
    `recorded`, as when the aim was set. Recording them makes one by one nearly twice as fast, since
    it spares what searches together share. What is left of eight is mostly arithmetic that no other
    shares, so against that they reach 2.7 to 3.5, and thirty-two 3.1 to 5.4, on different days of
    the same kind of machine.
    """
    only_timed(benchmark)  # tests/submissions/test_matching_search.py compares the answers
    observations = [observation for observation, _ in cola(count)]
    settings: dict[str, Any] = dict(LampCos.variants["lamp_cos_quick"]) | {
        "steps": 80, "initial_candidates": 6, "initial_permutations": 6, "discrete_candidates": 30
    }  # fmt: skip
    attack = LampCos(**settings)

    def one_by_one() -> list[Recovery]:
        with monkeypatch.context() as patched:
            if not recorded:
                patched.setattr(search_module, "_WORTH_RECORDING", math.inf)
            return [attack.recover(each) for each in observations]

    ratio, together, alone = in_turn(
        benchmark, lambda: attack.recover_many(observations), one_by_one, rounds=3
    )
    same = sum(a.sentences == b.sentences for a, b in zip(together, alone, strict=True))
    assert same >= 0.75 * count, "rounding may part a search or two of eight, no more"
    assert ratio >= least


@pytest.mark.parametrize(("together", "least"), [(True, 10), (False, 4.5)])
def test_recovery_as_the_paper_says_it(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, together: bool, least: float
) -> None:
    """Ten snapshots of `mini/cola` with its prior, together or one by one, against a plain LAMP.

    The plain one takes one candidate at a time, with full gradients and a question to the prior
    for each, whether or not the order was drawn before. Both have 150 of the paper's 2,000 steps
    with its proportions: a phase of 200 orders every 75 steps, 500 starts and as many orders of
    the best one for 2,000 steps. Our aim is ten times as fast together and five one by one;
    measured are 12 to 16 and 5.0.
    """
    few = cola(2 if benchmark.disabled else 10)
    settings: dict[str, Any] = dict(LampCos.variants["lamp_cos_quick"]) | {
        "steps": 150, "initial_candidates": 38, "initial_permutations": 38, "discrete_start": 0.1,
        "discrete_every": 75, "discrete_candidates": 200,
    }  # fmt: skip
    if benchmark.disabled:  # enough for the answers
        settings |= {"steps": 12, "initial_candidates": 3, "initial_permutations": 3}
        settings |= {"discrete_every": 6, "discrete_candidates": 12}
    attack = LampCos(**settings)
    observations = [observation for observation, _ in few]

    def ours() -> list[Recovery]:
        if together:
            return attack.recover_many(observations)
        return [attack.recover(observation) for observation in observations]

    ratio, found, expected = in_turn(
        benchmark,
        ours,
        lambda: [plainly(attack, observation, monkeypatch) for observation in observations],
        rounds=3,
    )
    if benchmark.disabled:
        assert [r.sentences for r in found] == [r.sentences for r in expected]
    assert ratio >= least


def test_quality_of_both(benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 32 sentences the plain LAMP reads no more than ours: rounding may part them, no more."""
    only_timed(benchmark)
    several = cola(32)
    settings: dict[str, Any] = dict(LampCos.variants["lamp_cos_brief"]) | {"steps": 40}
    attack = LampCos(**settings)
    ours = benchmark.pedantic(
        lambda: attack.recover_many([observation for observation, _ in several]), rounds=1
    )
    theirs = [plainly(attack, observation, monkeypatch) for observation, _ in several]
    gains = torch.tensor(
        [
            found(mine, truth) - found(its, truth)
            for mine, its, (_, truth) in zip(ours, theirs, several, strict=True)
        ]
    )
    error = float(gains.std()) / len(gains) ** 0.5
    same = sum(a.sentences == b.sentences for a, b in zip(ours, theirs, strict=True))
    print(
        f"\n{same} of 32 answers are the same; ours read {float(gains.mean()):+.3f} ± {error:.3f}"
    )
    assert float(gains.mean()) >= -2 * error - 1e-9


def found(recovery: Recovery, truth: list[int]) -> float:
    """Share of a sentence's tokens at their places."""
    return sum(a == b for a, b in zip(recovery.sentences[0], truth, strict=True)) / len(truth)


def plainly(attack: LampCos, observation: Observation, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    """As the paper says it."""
    with monkeypatch.context() as patched:
        patched.setattr(attack_module, "build_matcher", plain_matcher)
        patched.setattr(lamp_module, "rearrange", plain_rearrange)
        return attack.recover(observation)


def plain_matcher(*arguments: Any) -> tuple[Matcher, str]:
    """Full gradients by autograd, one candidate after another."""
    fast, note = build_matcher(*arguments)
    return PlainMatcher(fast.samples, fast.targets, fast.distance, fast.factors), note


def plain_rearrange(search: Search, count: int, fluency: Fluency) -> None:
    """Lines 7 to 18 of LAMP's Algorithm 1, word for word, for one problem of one sentence."""
    assert fluency.prior is not None
    tokens = len(search.places[0][0])
    draws = torch.randint(tokens, (count - 1, 3), generator=search.generators[0]).tolist()
    identity = tuple(range(tokens))
    orders = [identity]
    orders += [OPERATORS[n % 4](identity, *draw) for n, draw in enumerate(draws)]
    ids = search.tokens(search.embeddings)[0][0]
    scores, distances = [], []
    for order in orders:
        points = reordered(search, 0, [[order]])
        distances.append(search.matcher.losses(points, differentiable=False)[0, 0])
        likelihood = fluency.prior.negative_log_likelihood([[ids[i] for i in order]])
        scores.append(float(distances[-1]) + fluency.weight * float(likelihood))
    best = scores.index(min(scores))
    search.replace(reordered(search, 0, [[orders[best]]]).embeddings[:, 0])
    search.settle(distances[best][None])


def cola(count: int) -> list[tuple[Observation, list[int]]]:
    """The first snapshots of the task, with its prior, and the tokens that are sought."""
    side, models = load_task(all_tasks()["mini/cola"]), model_package()
    public = public_of("mini/cola")
    assert side.prior_directory is not None
    prior = models.open_prior(
        side.prior_directory, public.tokenizer, public.device, side.prior_shares_ids
    )
    public = replace(public, prior=prior)
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    names = [name for name, _ in public.model.named_parameters()]
    batches = [side.private_batch(index, 0) for index in range(count)]
    return [
        (
            Observation(
                public, client.update(b.batch, names), 1, n, labels=b.labels, lengths=b.lengths
            ),
            b.batch.input_ids[0, 1 : b.lengths[0] - 1].tolist(),
        )
        for n, b in enumerate(batches)
    ]
