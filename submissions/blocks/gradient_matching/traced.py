"""The fast way: all candidates in one forward and one backward pass.

Hooks record the input and the output of every layer with a matched parameter. One backward pass to
those outputs gives their gradients, for all candidates at once, since the sum of their losses
separates. From both follow the gradients of the parameters, in factors, and from those what the
distance takes of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from submissions.blocks.gradient_matching.curvature import written_out
from submissions.blocks.gradient_matching.distances import Distance
from submissions.blocks.gradient_matching.entries import Products, Target
from submissions.blocks.gradient_matching.factored import Thin, thin
from submissions.blocks.gradient_matching.layers import Rule, rule_for
from submissions.blocks.gradient_matching.matcher import Matcher, requiring_grad
from submissions.blocks.gradient_matching.measures import measured
from submissions.blocks.gradient_matching.samples import Points, Samples

_BUSY = 2048
"""Tokens that keep a processor's matrix product busy; more of them only spoil the caches."""


class UnknownLayer(Exception):
    """A matched parameter belongs to a layer without a rule, or is used in a way rules miss."""


Layers = Mapping[nn.Module, tuple[Tensor, Tensor]]
"""Inputs and output gradients of each layer, both (P, K, n, ·): the samples of a candidate stand
side by side."""


@dataclass(frozen=True)
class Goal:
    """One matched parameter and its targets."""

    module: nn.Module
    rule: Rule
    local: str
    """Its name inside the layer."""
    target: Target | Thin
    norms: Tensor  # (P,)
    factor: float
    """Weight of the L1 term."""

    def of(self, problems: Tensor) -> Goal:
        """The same in some of the problems."""
        return replace(self, target=self.target[problems], norms=self.norms[problems])


class Recorder:
    """Inputs and outputs of the watched layers in one forward pass."""

    def __init__(self, rows: int, twice: bool = False) -> None:
        """`twice`: whether what is recorded is differentiated once more."""
        self.rows = rows
        self.twice = twice
        self.calls: dict[nn.Module, list[tuple[Tensor, Tensor]]] = defaultdict(list)

    def watch(self, module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> Tensor:
        """A forward hook: an output that no candidate influences becomes a leaf of its own."""
        if not inputs or not isinstance(output, Tensor):
            raise UnknownLayer(f"{type(module).__name__} is called in an unusual way")
        given: Tensor = inputs[0]
        if isinstance(module, nn.Embedding):
            output = output.expand(self.rows, *output.shape[1:]).contiguous()
            given = given.expand(self.rows, *given.shape[1:])[..., None]
        if given.shape[0] != self.rows:
            raise UnknownLayer(f"{type(module).__name__} mixes the samples of a batch")
        if not output.requires_grad:
            output = output.detach().requires_grad_()
        self.calls[module].append((given, output))
        return output


class TracedMatcher(Matcher):
    """Computes losses from layer inputs and output gradients."""

    recordable = True

    def __init__(
        self,
        samples: Samples,
        targets: Sequence[Mapping[str, Tensor]],
        distance: Distance,
        factors: Mapping[str, float],
        sparse: bool = False,
    ) -> None:
        super().__init__(samples, targets, distance, factors, sparse)
        self.modules = owners(samples.model, frozenset(factors))
        self.recorders: list[Recorder] = []
        with self:
            tokens = self._probe()
        self.goals = [
            self._goal(module, local, name, tokens)
            for module, names in self.modules.items()
            for local, name in names.items()
        ]

    def losses(self, points: Points, differentiable: bool) -> Tensor:
        """One forward pass, one backward pass to the layer outputs, and what follows from them."""
        with torch.enable_grad():
            layers = self._trace(points, differentiable)
        with torch.set_grad_enabled(differentiable):
            goals, distance = self.goals, self.distance
            rules = {goal.module: goal.rule for goal in goals}
            gradients = {module: rule(module, *layers[module]) for module, rule in rules.items()}
            first, second = measured(
                [gradients[goal.module][goal.local] for goal in goals],
                [goal.target for goal in goals],
                distance.measure,
            )
            norms = torch.stack([goal.norms for goal in goals])[..., None]  # (L, P, 1)
            factors = norms.new_tensor([goal.factor for goal in goals])[:, None, None]
            return distance.total(distance.terms(first, second, norms, factors), norms)

    def only(self, problems: Sequence[int]) -> Self:
        """Targets are selected with their problems; the hooks are shared."""
        few = super().only(problems)
        if few is not self:
            which = torch.tensor(problems, device=self.samples.mask.device)
            few.goals = [goal.of(which) for goal in self.goals]
        return few

    def candidates_at_once(self, budget: int) -> int:
        """Saved activations and, as much again twice, layer inputs, errors and their products.

        On a CPU a chunk need not be larger than what keeps a matrix product busy.
        """
        problems, batch, width = self.samples.mask.shape
        fitting = budget // (3 * self.samples.bytes_per_row * batch * problems)
        if self.samples.mask.device.type == "cpu":
            fitting = min(fitting, _BUSY // (problems * batch * width))
        return max(1, fitting)

    def _trace(self, points: Points, differentiable: bool) -> Layers:
        embeddings = points.embeddings
        if not embeddings.requires_grad:
            points = Points(embeddings.detach().requires_grad_(), points.label_logits)
        recorder = Recorder(embeddings.shape[:3].numel(), differentiable)
        self.recorders.append(recorder)
        try:
            total = self.batch_losses(points).sum()
        finally:
            self.recorders.pop()
        outputs = [output for calls in recorder.calls.values() for _, output in calls]
        errors = iter(
            torch.autograd.grad(total, outputs, create_graph=differentiable, materialize_grads=True)
        )
        shape = embeddings.shape[:2]
        arranged: dict[int, Tensor] = {}  # layers that share an input share its arrangement
        for calls in recorder.calls.values():
            for given, _ in calls:
                arranged[id(given)] = arranged.get(id(given), _by_candidate(given, shape))
        return {
            module: (
                _joined([arranged[id(given)] for given, _ in calls]),
                _joined([_by_candidate(next(errors), shape) for _ in calls]),
            )
            for module, calls in recorder.calls.items()
        }

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks on the matched layers, which sleep while others use the model (such as a prior)."""

        def watch(module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> Tensor | None:
            return self.recorders[-1].watch(module, inputs, output) if self.recorders else None

        def twice() -> bool:
            return bool(self.recorders) and self.recorders[-1].twice

        model = self.samples.model
        hooks = [module.register_forward_hook(watch) for module in self.modules]
        try:
            with requiring_grad(model, frozenset()), written_out(model, twice):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _probe(self) -> dict[nn.Module, int]:
        """How many tokens each layer sees of one candidate."""
        layers = self._trace(self.samples.blank(), differentiable=False)
        return {module: given.shape[2] for module, (given, _) in layers.items()}

    def _goal(
        self, module: nn.Module, local: str, name: str, tokens: Mapping[nn.Module, int]
    ) -> Goal:
        """A parameter's targets, as few outer products where the distance and they allow it."""
        if module not in tokens:
            raise UnknownLayer(f"{type(module).__name__} is not part of the forward pass")
        rule = rule_for(module)
        assert rule is not None  # checked by `owners`
        value = torch.stack([problem[name] for problem in self.targets])
        target: Target | Thin = Target(value, value != 0 if self.sparse else None)
        by_products = isinstance(self.distance.measure, Products) and not self.sparse
        if by_products and value.dim() == 3:
            target = thin(value, tokens[module]) or target
        norms = value.flatten(1).norm(dim=1)
        return Goal(module, rule, local, target, norms, self.factors[name])


def owners(model: nn.Module, names: frozenset[str]) -> dict[nn.Module, dict[str, str]]:
    """Layers that own the named parameters: local name to full name, by layer."""
    found: dict[nn.Module, dict[str, str]] = {}
    seen: dict[int, str] = {}
    for path, module in model.named_modules():
        for local, parameter in module.named_parameters(recurse=False):
            name = f"{path}.{local}" if path else local
            if id(parameter) in seen and seen[id(parameter)] in names:
                raise UnknownLayer(f"{name} is shared between layers")
            seen[id(parameter)] = name
            if name in names:
                found.setdefault(module, {})[local] = name
    for module in found:
        if rule_for(module) is None:
            raise UnknownLayer(f"{type(module).__name__} has no rule")
    return found


def _by_candidate(values: Tensor, shape: torch.Size) -> Tensor:
    """(P K B, ..., d) as (P, K, n, d)."""
    return values.reshape(*shape, -1, values.shape[-1])


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Side by side along the tokens; a single part, which is the rule, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=2)
