"""Chooses how the problems of one group are matched, and checks the choice against autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from benchmark.spec import Public, Role
from submissions.blocks.gradient_matching.distances import Distance, layer_factors
from submissions.blocks.gradient_matching.matcher import Matcher
from submissions.blocks.gradient_matching.plain import (
    PlainMatcher,
    SimulatingMatcher,
    one_point,
    one_problem,
)
from submissions.blocks.gradient_matching.problem import Layout, Problem, class_count
from submissions.blocks.gradient_matching.samples import Points, Samples, Vocabulary
from submissions.blocks.gradient_matching.traced import TracedMatcher, UnknownLayer

_NEGLIGIBLE = 1e-7
"""Gradients this much smaller than the largest are zero but for rounding (attention's key bias)."""
_AGREEMENT = 1e-2
"""How far the two ways may differ on a random candidate before the fast one is not trusted."""
_SHARPNESS = 30.0
"""Of the labels that embeddings suggest to a language model; a guess, no paper has them."""


def vocabulary_of(public: Public) -> Vocabulary:
    """The public word embedding and the tokens that private text may contain."""
    table = public.model.get_parameter(public.roles.names[Role.WORD_EMBEDDING]).detach()
    allowed = torch.zeros(len(table), dtype=torch.bool)
    known = sorted(set(range(min(len(table), len(public.tokenizer)))) - public.forbidden_ids)
    allowed[known] = True
    return Vocabulary(table, allowed.to(table.device), _SHARPNESS)


def samples_of(problems: Sequence[Problem], layout: Layout, optimize_labels: bool) -> Samples:
    """The problems' losses; labels are optimized where nothing else is known."""
    public = problems[0].observation.public
    vocabulary = vocabulary_of(public)
    classes = [problem.classes for problem in problems]
    known = None
    if classes[0] is not None:
        known = torch.tensor([list(each or ()) for each in classes], device=public.device)
    spread = 0
    if known is None and public.objective.name == "classification":
        spread = class_count(public)
    elif optimize_labels and public.objective.name == "causal-lm":
        spread = len(vocabulary.table)
    return Samples(
        public.model, public.objective, vocabulary, layout.mask, layout.fixed_ids, known, spread
    )


@torch.no_grad()
def padding_shows(public: Public) -> bool:
    """Whether a sentence's loss changes when padding is put behind it.

    GPT-2 and Llama as classifiers read their answer at the last place, padding or not, when they
    are given embeddings, so their sentences can only be matched side by side at equal length.
    """
    if public.objective.name != "classification":
        return False
    mask = torch.tensor([[[1, 1, 1, 0, 0]]], device=public.device)  # (P, B, T)
    classes = mask[:, :, -1]
    padded = Samples(public.model, public.objective, vocabulary_of(public), mask, mask, classes)
    bare = replace(padded, mask=mask[..., :3], fixed_ids=mask[..., :3])
    embeddings = random_points(padded).embeddings
    losses = padded.losses(Points(embeddings)), bare.losses(Points(embeddings[..., :3, :]))
    return not torch.allclose(*losses, rtol=1e-3)


def build_matcher(
    problems: Sequence[Problem],
    samples: Samples,
    distance: Distance,
    weighting: str = "none",
    simulate: bool = False,
) -> tuple[Matcher, str]:
    """The fast matcher where it is right, else the plain one, and a remark on that choice."""
    targets = [problem.target for problem in problems]
    names = list(targets[0])
    factors = dict(zip(names, layer_factors(names, weighting), strict=True))
    factors = _informative(samples, targets, distance, factors)
    update, sparse = problems[0].observation.update, problems[0].sparse
    if simulate and update.kind == "difference":
        steps, rate = update.local_steps, update.learning_rate
        matcher = SimulatingMatcher(
            samples, targets, distance, factors, sparse, local_steps=steps, learning_rate=rate
        )
        return matcher, f"Simulated {steps} local steps."
    plain = PlainMatcher(samples, targets, distance, factors, sparse)
    try:
        traced = TracedMatcher(samples, targets, distance, factors, sparse)
    except UnknownLayer as reason:
        return plain, f"Matched by plain autograd, since {reason}."
    if not _agree(traced, plain):
        return plain, "Matched by plain autograd, since the layer rules do not fit this model."
    return traced, ""


def _informative(
    samples: Samples,
    targets: Sequence[Mapping[str, Tensor]],
    distance: Distance,
    factors: Mapping[str, float],
) -> dict[str, float]:
    """Without parameters whose gradient is zero for any text, whatever noise is found there."""
    probe = PlainMatcher(samples, targets, distance, factors)
    with probe, torch.enable_grad():
        gradients = probe.gradients(
            one_problem(samples, 0), one_point(random_points(samples), 0, 0), False
        )
    norms = torch.stack([gradient.norm() for gradient in gradients])
    informative = (norms > _NEGLIGIBLE * norms.max()).tolist()
    return {name: f for (name, f), kept in zip(factors.items(), informative, strict=True) if kept}


def _agree(traced: TracedMatcher, plain: PlainMatcher) -> bool:
    """Whether both ways see the same loss at a random candidate of the first problem."""
    points = random_points(traced.samples)
    with traced:
        fast = traced.losses(points, differentiable=False)[0, 0]
    with plain:
        slow = plain.loss_of(points, 0, 0)
    return bool((fast - slow).abs() <= _AGREEMENT * slow.abs())


def random_points(samples: Samples) -> Points:
    """One candidate a problem, of the size that the model is used to."""
    generator = torch.Generator().manual_seed(0)
    problems, batch, width = samples.mask.shape
    table = samples.vocabulary.table
    shape = (problems, 1, batch, width, table.shape[1])
    noise = torch.randn(shape, generator=generator).to(table)
    logits = None
    if samples.optimized_labels:
        logits = table.new_zeros(problems, 1, *samples.label_shape())
    return Points(noise * table.norm(dim=1).mean() / table.shape[1] ** 0.5, logits)
