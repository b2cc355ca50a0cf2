"""Norm of the whole model's gradient for each of many sentences, in one backward pass.

As in gradient matching, hooks record what goes into and comes out of every layer, one backward pass
gives the gradients of those outputs for all sentences at once, and norms follow from the factors
(`gradient_matching/gradients.py`). Two things are added: word embeddings, whose gradient is
‖g‖² = Σ [same token] ⟨errors, errors⟩, and the cross term of embeddings that are tied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from benchmark.spec import Batch, Objective
from submissions.blocks.gradient_matching.layers import rule_for
from submissions.blocks.gradient_matching.matcher import requiring_grad
from submissions.blocks.gradient_matching.traced import Recorder, UnknownLayer

Owners = dict[str, list[tuple[nn.Module, str]]]
"""By the name of a parameter: the layers that use it, and what they call it."""


class GradientNorms:
    """Norms over the named parameters; sentence by sentence where a layer has no rule."""

    def __init__(self, model: nn.Module, objective: Objective, names: Collection[str]) -> None:
        self.model, self.objective = model, objective
        self.names = [name for name, _ in model.named_parameters() if name in names]
        self.owners = _owners(model, self.names)
        self.is_traced = all(_has_rules(layers) for layers in self.owners.values())

    def __call__(self, batch: Batch) -> Tensor:
        """Gradient norm of each sentence's own loss, (N,)."""
        if self.is_traced:
            try:
                return self.traced(batch)
            except UnknownLayer:
                self.is_traced = False
        return self.plain(batch)

    def traced(self, batch: Batch) -> Tensor:
        """All sentences at once, no gradient written out."""
        rows = len(batch.input_ids)
        recorder = Recorder(rows)
        layers = {module for owners in self.owners.values() for module, _ in owners}
        with ExitStack() as stack, torch.enable_grad():
            stack.enter_context(requiring_grad(self.model, frozenset()))
            for module in layers:
                stack.callback(module.register_forward_hook(recorder.watch).remove)
            total = self.objective.losses(self.model, batch).sum()
        calls = recorder.calls
        if any(len(calls[module]) != 1 for module in layers):
            raise UnknownLayer("a layer is not called once in a forward pass")
        outputs = {module: output for module, [(_, output)] in calls.items()}
        errors = torch.autograd.grad(total, list(outputs.values()), materialize_grads=True)
        seen = {
            module: (calls[module][0][0].detach(), error)
            for module, error in zip(outputs, errors, strict=True)
        }
        return self._squares(seen, rows).clamp_min(0).sqrt()

    def plain(self, batch: Batch) -> Tensor:
        """One backward pass a sentence, every gradient written out."""
        norms = []
        with torch.enable_grad(), requiring_grad(self.model, frozenset(self.names)):
            parameters = [self.model.get_parameter(name) for name in self.names]
            for row in batch.split(len(batch.input_ids)):
                loss = self.objective.loss(self.model, row)
                gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
                norms.append(torch.stack([g.norm() for g in gradients]).norm())
        return torch.stack(norms)

    @torch.no_grad()
    def _squares(self, seen: dict[nn.Module, tuple[Tensor, Tensor]], rows: int) -> Tensor:
        """Sum of the squared norms of all parameters, (N,)."""
        total = next(iter(seen.values()))[1].new_zeros(rows)
        for layers in self.owners.values():
            for module, local in layers:
                total += _square(module, local, *seen[module])
            if len(layers) == 2:
                (embedding, _), (output, _) = layers
                total += 2 * _cross(embedding, *seen[embedding], *seen[output])
        return total


def _owners(model: nn.Module, names: Collection[str]) -> Owners:
    by_identity = {id(p): name for name, p in model.named_parameters() if name in names}
    found: Owners = defaultdict(list)
    for module in model.modules():
        for local, parameter in module.named_parameters(recurse=False):
            if id(parameter) in by_identity:
                found[by_identity[id(parameter)]].append((module, local))
    return found


def _has_rules(layers: list[tuple[nn.Module, str]]) -> bool:
    """A parameter of one layer with a rule, or of an embedding and the output layer tied to it."""
    kinds = [type(module) for module, _ in layers]
    if len(layers) == 1:
        return rule_for(layers[0][0]) is not None
    return kinds == [nn.Embedding, nn.Linear]


def _square(module: nn.Module, local: str, inputs: Tensor, errors: Tensor) -> Tensor:
    """Squared norm of one parameter's gradient in one layer, (N,)."""
    if isinstance(module, nn.Embedding):
        ids, errors = _embedded(module, inputs, errors)
        same = (ids[:, :, None] == ids[:, None]).to(errors.dtype)  # (N, T, T)
        squares: Tensor = (same * (errors @ errors.mT)).sum(dim=(1, 2))
        return squares
    rule = rule_for(module)
    assert rule is not None  # checked by `_has_rules`
    shape = (1, 1, len(errors), -1)
    gradient = rule(
        module, inputs.reshape(*shape, inputs.shape[-1]), errors.reshape(*shape, errors.shape[-1])
    )
    return gradient[local].square()[0, 0]


def _cross(
    embedding: nn.Module, inputs: Tensor, errors: Tensor, hidden: Tensor, logit_errors: Tensor
) -> Tensor:
    """Inner product of the two parts of a tied matrix's gradient, (N,).

    Token s of the input puts its error into row ids[s], where position t of the output has put
    its hidden state times the error of logit ids[s].
    """
    ids, errors = _embedded(embedding, inputs, errors)
    wanted = ids[:, None].expand(-1, hidden.shape[1], -1)  # (N, T, T)
    products: Tensor = logit_errors.gather(2, wanted) * (hidden @ errors.mT)
    return products.sum(dim=(1, 2))


def _embedded(module: nn.Module, inputs: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (N, T) and errors (N, T, D) of an embedding, without the row that never learns."""
    assert isinstance(module, nn.Embedding)
    ids = inputs[..., 0]
    if module.padding_idx is not None:
        errors = errors.masked_fill((ids == module.padding_idx)[..., None], 0.0)
    return ids, errors
