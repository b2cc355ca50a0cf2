"""Gradients of each sample of a batch, by Opacus, clipped and added up.

Opacus records only layers in training mode, so those that hold parameters are put in it, while
dropout stays as it was. Its hooks are taken off again, and the model is left as it was found.
"""

# mypy: disable-error-code="no-untyped-call"
# (Opacus leaves its hooks unannotated)

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from benchmark.spec import Batch, Client

MEMORY = 1 << 28
"""Entries of per-sample gradients that are held at once: 1 GiB in single precision."""


def clipped_sum(
    client: Client, batch: Batch, names: Sequence[str], bound: float
) -> dict[str, Tensor]:
    """Sum over the samples of their gradients, each scaled down to at most `bound` in L2 norm."""
    parameters = dict(client.model.named_parameters())
    total = {name: torch.zeros_like(parameters[name]) for name in names}
    for gradients in sample_gradients(client, batch, names):
        squares = [g.flatten(1).square().sum(dim=1) for g in gradients.values()]
        norms = torch.stack(squares).sum(dim=0).sqrt()  # (B,)
        factors = (bound / (norms + 1e-6)).clamp(max=1.0)
        for name, gradient in gradients.items():
            total[name] += torch.tensordot(factors, gradient, dims=1)
    return total


def sample_gradients(
    client: Client, batch: Batch, names: Sequence[str]
) -> Iterator[Mapping[str, Tensor]]:
    """Gradients by parameter name, (B, ...), for some samples at a time.

    Where Opacus cannot tell the samples of a layer apart, they are taken one by one.
    """
    try:
        yield from _together(client, batch, names)
    except _Mixed:
        for part in batch.split(len(batch.labels)):
            yield {name: value[None] for name, value in client.gradient(part, names).items()}


class _Mixed(Exception):
    """Opacus does not know a layer, or the layer hides which sample is which."""


def _together(client: Client, batch: Batch, names: Sequence[str]) -> Iterator[Mapping[str, Tensor]]:
    """As many samples at a time as memory holds, by one backward pass."""
    parameters = {n: p for n, p in client.model.named_parameters() if n in set(names)}
    size = sum(parameter.numel() for parameter in parameters.values())
    parts = -(-len(batch.labels) * size // MEMORY)
    with _recording(client.model, parameters):
        for part in batch.split(min(max(1, parts), len(batch.labels))):
            loss = client.objective.losses(client.model, part).sum()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Full backward hook")  # embeddings: ids have none
                torch.autograd.backward(loss, inputs=list(parameters.values()))
            yield {name: _taken(p, len(part.labels), name) for name, p in parameters.items()}


def _taken(parameter: Any, samples: int, name: str) -> Tensor:
    """A parameter's per-sample gradient, removed from it; zeros where the loss does not use it."""
    found, parameter.grad_sample = parameter.grad_sample, None
    if found is None and parameter.grad is None:
        return torch.zeros((samples, *parameter.shape)).to(parameter)
    parameter.grad = None
    if not isinstance(found, Tensor) or len(found) != samples:
        raise _Mixed(f"the samples' gradients of {name}")
    return found


@contextmanager
def _recording(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> Iterator[None]:
    """Opacus's hooks on the layers of a model, for these parameters only."""
    from opacus.grad_sample import GradSampleHooks

    _teach_opacus()
    selected = {id(parameter) for parameter in parameters.values()}
    frozen = [p for p in model.parameters() if p.requires_grad and id(p) not in selected]
    layers = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
    modes = [layer.training for layer in layers]
    hooks: Any = None
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for layer in layers:
            layer.training = True
        hooks = GradSampleHooks(model, loss_reduction="sum", strict=False)
        yield
    except NotImplementedError as error:
        raise _Mixed(str(error)) from error
    finally:
        if hooks is not None:
            hooks.cleanup()
        for layer, mode in zip(layers, modes, strict=True):
            layer.training = mode
        for parameter in frozen:
            parameter.requires_grad_(True)
        for parameter in parameters.values():
            parameter.grad = None


Gradients = dict[nn.Parameter, Tensor]


@cache
def _teach_opacus() -> None:
    """Rules that Opacus lacks or gets wrong.

    GPT-2's Conv1D is a linear layer whose weight is stored the other way round. And the padding
    row of an embedding gets no gradient, though Marian's decoder reads it as its start token.
    """
    from opacus.grad_sample import register_grad_sampler
    from opacus.grad_sample.embedding import compute_embedding_grad_sample
    from transformers.pytorch_utils import Conv1D

    def conv1d(layer: Conv1D, inputs: list[Tensor], backprops: Tensor) -> Gradients:
        gradients = {}
        if layer.weight.requires_grad:
            gradients[layer.weight] = torch.einsum("n...i,n...j->nij", inputs[0], backprops)
        if layer.bias.requires_grad:
            gradients[layer.bias] = torch.einsum("n...j->nj", backprops)
        return gradients

    def embedding(layer: nn.Embedding, inputs: list[Tensor], backprops: Tensor) -> Gradients:
        gradients: Gradients = compute_embedding_grad_sample(layer, inputs, backprops)
        for gradient in gradients.values():
            if layer.padding_idx is not None:
                gradient[:, layer.padding_idx] = 0.0
        return gradients

    register_grad_sampler(Conv1D)(conv1d)
    register_grad_sampler(nn.Embedding)(embedding)
