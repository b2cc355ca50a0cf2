"""The plain way: autograd over all parameters, one candidate at a time.

Works for every model. It is the reference in tests, the fall-back for layers without a rule, and
the way to match an update of several local steps by simulating them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from submissions.blocks.gradient_matching.entries import Target
from submissions.blocks.gradient_matching.matcher import Matcher, requiring_grad
from submissions.blocks.gradient_matching.samples import Points, Samples


class PlainMatcher(Matcher):
    """Writes out every gradient."""

    def attached(self) -> AbstractContextManager[None]:
        """Only matched parameters ask for gradients."""
        return requiring_grad(self.samples.model, frozenset(self.factors))

    def losses(self, points: Points, differentiable: bool) -> Tensor:
        """One candidate after another."""
        rows = [
            torch.stack([self.loss_of(points, p, k, differentiable) for k in range(points.count)])
            for p in range(len(self.targets))
        ]
        return torch.stack(rows)

    def candidates_at_once(self, budget: int) -> int:
        """One: nothing is shared between candidates."""
        return 1

    def loss_of(
        self, points: Points, problem: int, candidate: int, differentiable: bool = False
    ) -> Tensor:
        """Loss of one candidate of one problem."""
        samples = one_problem(self.samples, problem)
        point = one_point(points, problem, candidate)
        with torch.enable_grad():
            gradients = self.gradients(samples, point, differentiable)
        found = [
            self.distance.measure.of(gradient[None, None], self._target(name, problem))
            for name, gradient in zip(self.factors, gradients, strict=True)
        ]
        first, second = (torch.stack(numbers) for numbers in zip(*found, strict=True))  # (L, 1, 1)
        norms = torch.stack([self.targets[problem][name].norm() for name in self.factors])
        factors = norms.new_tensor(list(self.factors.values()))
        norms, factors = norms[:, None, None], factors[:, None, None]
        terms = self.distance.terms(first, second, norms, factors)
        loss = self.distance.total(terms, norms)[0, 0]
        return loss if differentiable else loss.detach()

    def gradients(self, samples: Samples, point: Points, differentiable: bool) -> list[Tensor]:
        """Gradient of the batch loss in each matched parameter."""
        named = dict(samples.model.named_parameters())
        parameters = [named[name] for name in self.factors]
        return gradients_of(samples.losses(point).mean(), parameters, differentiable)

    def _target(self, name: str, problem: int) -> Target:
        value = self.targets[problem][name][None]
        return Target(value, value != 0 if self.sparse else None)


class SimulatingMatcher(PlainMatcher):
    """Runs the client's own steps of gradient descent and compares where they lead."""

    def __init__(self, *arguments: Any, local_steps: int, learning_rate: float) -> None:
        super().__init__(*arguments)
        self.local_steps = local_steps
        self.learning_rate = learning_rate

    def gradients(self, samples: Samples, point: Points, differentiable: bool) -> list[Tensor]:
        """The mean gradient along the client's path, which is what its weight difference shows.

        Each step takes an equal part of the batch, as clients do.
        """
        named = dict(samples.model.named_parameters())
        start: dict[str, Tensor] = {name: named[name] for name in self.factors}
        total = [torch.zeros_like(weight) for weight in start.values()]
        for part in _parts(point.embeddings.shape[2], self.local_steps):
            rate = self.learning_rate
            moved = {n: w - rate * t for (n, w), t in zip(start.items(), total, strict=True)}
            loss = _moved(samples, moved, part).losses(_some_samples(point, part)).mean()
            steps = gradients_of(loss, list(moved.values()), create_graph=differentiable)
            total = [before + step for before, step in zip(total, steps, strict=True)]
        return [each / self.local_steps for each in total]


class _Moved(nn.Module):
    """The model with other weights; `_module` is where objectives look for its configuration."""

    def __init__(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._module = model
        self.weights = weights

    def forward(self, **inputs: Tensor) -> object:
        return functional_call(self._module, dict(self.weights), (), inputs)


def gradients_of(loss: Tensor, parameters: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """Gradients, zero for parameters that the loss does not use."""
    values = torch.autograd.grad(
        loss, list(parameters), create_graph=create_graph, allow_unused=True
    )
    return [
        torch.zeros_like(p) if value is None else value
        for p, value in zip(parameters, values, strict=True)
    ]


def one_problem(samples: Samples, problem: int) -> Samples:
    """The samples of a single problem."""
    return samples.only([problem])


def one_point(points: Points, problem: int, candidate: int) -> Points:
    """A single candidate of a single problem."""
    p, k = slice(problem, problem + 1), slice(candidate, candidate + 1)
    logits = points.label_logits
    return Points(points.embeddings[p, k], None if logits is None else logits[p, k])


def _some_samples(point: Points, part: slice) -> Points:
    logits = point.label_logits
    return Points(point.embeddings[:, :, part], None if logits is None else logits[:, :, part])


def _moved(samples: Samples, weights: Mapping[str, Tensor], part: slice) -> Samples:
    classes = None if samples.classes is None else samples.classes[:, part]
    smaller = _replaced(samples, samples.mask[:, part], samples.fixed_ids[:, part], classes)
    return Samples(**(vars(smaller) | {"model": _Moved(samples.model, weights)}))


def _replaced(samples: Samples, mask: Tensor, fixed: Tensor, classes: Tensor | None) -> Samples:
    return Samples(**(vars(samples) | {"mask": mask, "fixed_ids": fixed, "classes": classes}))


def _parts(batch: int, steps: int) -> list[slice]:
    """The samples of each step, divided as `Batch.split` does it."""
    chunks = torch.arange(batch).chunk(steps)
    return [slice(int(chunk[0]), int(chunk[-1]) + 1) for chunk in chunks]
