"""The fast way: all candidates in one forward and one backward pass.

Hooks record the input and the output of every layer with a matched parameter. One backward pass to
those outputs gives their gradients, for all candidates at once, since the sum of their losses
separates. From both follow the gradients of the parameters, in factors: distances that take inner
products alone never write one out. For the others, layers that are alike are stacked and computed
in one product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from submissions.blocks.gradient_matching.distances import (
    Distance,
    ProductDistance,
    Target,
    stack_target,
)
from submissions.blocks.gradient_matching.gradients import Gradient
from submissions.blocks.gradient_matching.layers import Rule, likeness, rule_for
from submissions.blocks.gradient_matching.matcher import Matcher, requiring_grad
from submissions.blocks.gradient_matching.products import Thin, products, thin
from submissions.blocks.gradient_matching.samples import Points, Samples

_BUSY = 2048
"""Tokens that keep a processor's matrix product busy; more of them only spoil the caches."""


_LARGE = 1 << 16
"""Entries of a weight whose product keeps a processor busy alone; stacking would only copy."""


class UnknownLayer(Exception):
    """A matched parameter belongs to a layer without a rule, or is used in a way rules miss."""


Layers = Mapping[nn.Module, tuple[Tensor, Tensor]]
"""Inputs and output gradients of each layer, both (P, K, n, ·): the samples of a candidate stand
side by side."""


@dataclass(frozen=True)
class Goal:
    """One matched parameter, for inner products with its targets."""

    module: nn.Module
    local: str
    """Its name inside the layer."""
    target: Tensor | Thin  # (P, *shape)
    norms: Tensor  # (P,)


@dataclass(frozen=True)
class Group:
    """Layers that are alike, with the targets of their matched parameters, to be written out."""

    modules: tuple[nn.Module, ...]
    rule: Rule
    targets: Mapping[str, Target]
    """By the parameter's name inside the layer."""

    def of(self, problems: Tensor) -> Group:
        """The same layers with the targets of some problems."""
        targets = {name: target.of(problems) for name, target in self.targets.items()}
        return replace(self, targets=targets)


class Recorder:
    """Inputs and outputs of the watched layers in one forward pass."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
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
        self.writes_gradients = sparse or not isinstance(distance, ProductDistance)
        self.groups = self._grouped(tokens) if self.writes_gradients else []
        self.goals = [] if self.writes_gradients else self._goals(tokens)

    def losses(self, points: Points, differentiable: bool) -> Tensor:
        """One forward pass, one backward pass to the layer outputs, and what follows from them."""
        with torch.enable_grad():
            layers = self._trace(points, differentiable)
        with torch.set_grad_enabled(differentiable):
            return self._written_out(layers) if self.writes_gradients else self._factored(layers)

    def only(self, problems: Sequence[int]) -> Self:
        """Targets are selected with their problems; the hooks are shared."""
        few = super().only(problems)
        if few is not self:
            which = torch.tensor(problems, device=self.samples.mask.device)
            few.goals = [
                replace(g, target=g.target[which], norms=g.norms[which]) for g in self.goals
            ]
            few.groups = [group.of(which) for group in self.groups]
        return few

    def candidates_at_once(self, budget: int) -> int:
        """Saved activations and, as much again twice, layer inputs, errors and their stacks.

        On a CPU a chunk need not be larger than what keeps a matrix product busy.
        """
        problems, batch, width = self.samples.mask.shape
        needed = 3 * self.samples.bytes_per_row * batch
        if self.writes_gradients:
            needed += 3 * max(t.value[:, 0].nbytes for g in self.groups for t in g.targets.values())
        fitting = budget // (needed * problems)
        if self.samples.mask.device.type == "cpu":
            fitting = min(fitting, _BUSY // (problems * batch * width))
        return max(1, fitting)

    def _factored(self, layers: Layers) -> Tensor:
        """Losses from inner products and norms."""
        assert isinstance(self.distance, ProductDistance)
        gradients: dict[nn.Module, Mapping[str, Gradient]] = {}
        for goal in self.goals:
            if goal.module not in gradients:
                gradients[goal.module] = _rule(goal.module)(goal.module, *layers[goal.module])
        dots, squares = products(
            [gradients[goal.module][goal.local] for goal in self.goals],
            [goal.target for goal in self.goals],
        )
        norms = torch.stack([goal.norms for goal in self.goals])  # (L, P)
        terms = self.distance.of_products(dots, squares, norms[..., None])
        return self.distance.total(terms, norms)

    def _written_out(self, layers: Layers) -> Tensor:
        """Losses from gradients with all of their entries, one product a group."""
        terms = [
            self.distance.terms(gradient[name].dense(), target)
            for group in self.groups
            for gradient in [_stacked_gradients(group, layers)]
            for name, target in group.targets.items()
        ]
        norms = [target.norms for group in self.groups for target in group.targets.values()]
        return self.distance.total(torch.cat(terms), torch.cat(norms))

    def _trace(self, points: Points, differentiable: bool) -> Layers:
        embeddings = points.embeddings
        if not embeddings.requires_grad:
            points = Points(embeddings.detach().requires_grad_(), points.label_logits)
        recorder = Recorder(embeddings.shape[:3].numel())
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

        hooks = [module.register_forward_hook(watch) for module in self.modules]
        try:
            with requiring_grad(self.samples.model, frozenset()):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _probe(self) -> dict[nn.Module, int]:
        """How many tokens each layer sees of one candidate."""
        layers = self._trace(self.samples.blank(), differentiable=False)
        return {module: given.shape[2] for module, (given, _) in layers.items()}

    def _goals(self, tokens: Mapping[nn.Module, int]) -> list[Goal]:
        """Every matched parameter; the gradients of matrices as outer products where possible."""
        goals = []
        for module, names in self.modules.items():
            _check(module, tokens)
            for local, name in names.items():
                value = torch.stack([problem[name] for problem in self.targets])
                few = thin(value, tokens[module]) if value.dim() == 3 else None
                goals.append(Goal(module, local, few or value, value.flatten(1).norm(dim=1)))
        return goals

    def _grouped(self, tokens: Mapping[nn.Module, int]) -> list[Group]:
        """Stack the layers that are alike and see equally many tokens."""
        alike: dict[tuple[object, ...], list[nn.Module]] = defaultdict(list)
        for module, names in self.modules.items():
            _check(module, tokens)
            alone = module if self._is_large(module) else None
            alike[(alone, likeness(module), tokens[module], tuple(names))].append(module)
        return [self._group(tuple(modules)) for modules in alike.values()]

    def _is_large(self, module: nn.Module) -> bool:
        """On a GPU launches cost more than copies, so nothing is too large to be stacked."""
        largest = max(parameter.numel() for parameter in module.parameters(recurse=False))
        return self.samples.mask.device.type == "cpu" and largest > _LARGE

    def _group(self, modules: tuple[nn.Module, ...]) -> Group:
        targets = {}
        for local in self.modules[modules[0]]:
            names = [self.modules[module][local] for module in modules]
            values = [[problem[name] for problem in self.targets] for name in names]
            targets[local] = stack_target(
                values, [self.factors[name] for name in names], self.sparse
            )
        return Group(modules, _rule(modules[0]), targets)


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


def _check(module: nn.Module, tokens: Mapping[nn.Module, int]) -> None:
    if module not in tokens:
        raise UnknownLayer(f"{type(module).__name__} is not part of the forward pass")


def _rule(module: nn.Module) -> Rule:
    rule = rule_for(module)
    assert rule is not None  # checked by `owners`
    return rule


def _stacked_gradients(group: Group, layers: Layers) -> Mapping[str, Gradient]:
    """Apply the group's rule to the stacked layers."""
    inputs = _stacked([layers[module][0] for module in group.modules])
    errors = _stacked([layers[module][1] for module in group.modules])
    return group.rule(group.modules[0], inputs, errors)


def _by_candidate(values: Tensor, shape: torch.Size) -> Tensor:
    """(P K B, ..., d) as (P, K, n, d)."""
    return values.reshape(*shape, -1, values.shape[-1])


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Side by side along the tokens; a single part, which is the rule, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=2)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """One above the other; a single part is not copied."""
    return parts[0][None] if len(parts) == 1 else torch.stack(list(parts))
