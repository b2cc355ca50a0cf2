"""The fast way: all candidates in one forward and one backward pass, gradients never written out.

Hooks record the input and the output of every layer with a matched parameter. One backward pass to
those outputs gives their gradients, for all candidates at once, since the sum of their losses
separates. Layers that are alike are stacked and computed in one product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from submissions.blocks.gradient_matching.distances import (
    Distance,
    Target,
    stack_target,
)
from submissions.blocks.gradient_matching.gradients import Gradient
from submissions.blocks.gradient_matching.layers import Rule, likeness, rule_for
from submissions.blocks.gradient_matching.matcher import Matcher, requiring_grad
from submissions.blocks.gradient_matching.samples import Points, Samples

_BUSY = 2048
"""Tokens that keep a processor's matrix product busy; more of them only spoil the caches."""


_LARGE = 1 << 16
"""Entries of a weight whose product keeps a processor busy alone; stacking would only copy."""


class UnknownLayer(Exception):
    """A matched parameter belongs to a layer without a rule, or is used in a way rules miss."""


@dataclass(frozen=True)
class Group:
    """Layers that are alike, with the targets of their matched parameters."""

    modules: tuple[nn.Module, ...]
    rule: Rule
    targets: Mapping[str, Target]
    """By the parameter's name inside the layer."""


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
        self.recorder: Recorder | None = None
        with self:
            tokens = self._probe()
        self.groups = self._grouped(tokens)
        parts = [target for group in self.groups for target in group.targets.values()]
        self.norms = torch.cat([target.norms for target in parts])  # (L, P)
        self.writes_gradients = self.distance.writes_gradients or any(
            target.kept is not None for target in parts
        )

    def losses(self, points: Points, differentiable: bool) -> Tensor:
        """One forward pass, one backward pass to the layer outputs, one product a group."""
        with torch.enable_grad():
            layers = self._trace(points, differentiable)
        with torch.set_grad_enabled(differentiable):
            shape = points.embeddings.shape[:2]
            terms = [
                self.distance.terms(gradient[name], target)
                for group in self.groups
                for gradient in [_gradients(group, layers, shape)]
                for name, target in group.targets.items()
            ]
            return self.distance.total(torch.cat(terms), self.norms)

    def candidates_at_once(self, budget: int) -> int:
        """Saved activations and, as much again twice, layer inputs, errors and their stacks.

        On a CPU a chunk need not be larger than what keeps a matrix product busy.
        """
        problems, batch, width = self.samples.mask.shape
        needed = 3 * self.bytes_per_row * batch
        if self.writes_gradients:
            needed += 3 * max(t.value[:, 0].nbytes for g in self.groups for t in g.targets.values())
        fitting = budget // (needed * problems)
        if self.samples.mask.device.type == "cpu":
            fitting = min(fitting, _BUSY // (problems * batch * width))
        return max(1, fitting)

    def _trace(
        self, points: Points, differentiable: bool
    ) -> dict[nn.Module, tuple[Tensor, Tensor]]:
        """Input and output gradient of each layer, (N, n, ·), calls side by side."""
        embeddings = points.embeddings
        if not embeddings.requires_grad:
            points = Points(embeddings.detach().requires_grad_(), points.label_logits)
        self.recorder = recorder = Recorder(embeddings.shape[:3].numel())
        try:
            total = self.batch_losses(points).sum()
        finally:
            self.recorder = None
        outputs = [output for calls in recorder.calls.values() for _, output in calls]
        errors = iter(
            torch.autograd.grad(total, outputs, create_graph=differentiable, materialize_grads=True)
        )
        return {
            module: (
                _joined([_by_token(given) for given, _ in calls]),
                _joined([_by_token(next(errors)) for _ in calls]),
            )
            for module, calls in recorder.calls.items()
        }

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks on the matched layers, which sleep while others use the model (such as a prior)."""

        def watch(module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> Tensor | None:
            recorder = self.recorder
            return None if recorder is None else recorder.watch(module, inputs, output)

        hooks = [module.register_forward_hook(watch) for module in self.modules]
        try:
            with requiring_grad(self.samples.model, frozenset()):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _probe(self) -> dict[nn.Module, int]:
        """How many tokens each layer sees of one candidate; measures the memory of a row, too."""
        problems, batch, width = self.samples.mask.shape
        table = self.samples.vocabulary.table
        embeddings = table[:1].expand(problems, 1, batch, width, -1).clone()
        label_logits = None
        if self.samples.optimized_labels:
            label_logits = embeddings.new_zeros(problems, 1, *self.samples.label_shape())
        saved: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            layers = self._trace(Points(embeddings, label_logits), differentiable=False)
        for parameter in self.samples.model.parameters():
            saved.pop(parameter.untyped_storage().data_ptr(), None)
        self.bytes_per_row = max(1, sum(saved.values()) // (problems * batch))
        return {module: given.shape[1] for module, (given, _) in layers.items()}

    def _grouped(self, tokens: Mapping[nn.Module, int]) -> list[Group]:
        """Stack the layers that are alike and see equally many tokens."""
        alike: dict[tuple[object, ...], list[nn.Module]] = defaultdict(list)
        for module, names in self.modules.items():
            if module not in tokens:
                raise UnknownLayer(f"{type(module).__name__} is not part of the forward pass")
            alone = module if self._is_large(module) else None
            alike[(alone, likeness(module), tokens[module], tuple(names))].append(module)
        return [self._group(tuple(modules)) for modules in alike.values()]

    def _is_large(self, module: nn.Module) -> bool:
        """On a GPU launches cost more than copies, so nothing is too large to be stacked."""
        largest = max(parameter.numel() for parameter in module.parameters(recurse=False))
        return self.samples.mask.device.type == "cpu" and largest > _LARGE

    def _group(self, modules: tuple[nn.Module, ...]) -> Group:
        rule = rule_for(modules[0])
        assert rule is not None  # checked by `owners`
        targets = {}
        for local in self.modules[modules[0]]:
            names = [self.modules[module][local] for module in modules]
            values = [[problem[name] for problem in self.targets] for name in names]
            targets[local] = stack_target(
                values, [self.factors[name] for name in names], self.sparse
            )
        return Group(modules, rule, targets)


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


def _gradients(
    group: Group, layers: Mapping[nn.Module, tuple[Tensor, Tensor]], shape: torch.Size
) -> Mapping[str, Gradient]:
    """Apply the group's rule to the stacked layers."""
    inputs = _stacked([_by_candidate(layers[m][0], shape) for m in group.modules])
    errors = _stacked([_by_candidate(layers[m][1], shape) for m in group.modules])
    return group.rule(group.modules[0], inputs, errors)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Side by side along the tokens; a single part, which is the rule, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """One above the other; a single part is not copied."""
    return parts[0][None] if len(parts) == 1 else torch.stack(list(parts))


def _by_token(values: Tensor) -> Tensor:
    """(N, ..., d) as (N, n, d)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def _by_candidate(values: Tensor, shape: torch.Size) -> Tensor:
    """(P K B, n, d) as (P, K, B n, d): the samples of a candidate stand side by side."""
    return values.reshape(*shape, -1, values.shape[-1])
