"""How each type of layer makes its parameters' gradients out of its inputs and output gradients.

A layer's entry is a short rule with a test against autograd. A model with a matched parameter in a
layer that is not listed here is matched by the plain path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from submissions.blocks.gradient_matching.gradients import Gradient, Outer, Paired, Total

Rule = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Gradient]]
"""From inputs and output gradients, both (..., n, ·), to gradients by parameter name. """


def linear(module: nn.Module, inputs: Tensor, errors: Tensor) -> Mapping[str, Gradient]:
    """y = x Wᵀ + b with W of shape (out, in)."""
    return {"weight": Outer(errors, inputs), "bias": Total(errors)}


def conv1d(module: nn.Module, inputs: Tensor, errors: Tensor) -> Mapping[str, Gradient]:
    """y = x W + b with W of shape (in, out), as GPT-2 has it."""
    return {"weight": Outer(inputs, errors), "bias": Total(errors)}


def layer_norm(module: nn.Module, inputs: Tensor, errors: Tensor) -> Mapping[str, Gradient]:
    """y = w ∘ (x - mean) / deviation + b."""
    assert isinstance(module, nn.LayerNorm)
    normal = functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    return {"weight": Paired(errors, normal), "bias": Total(errors)}


def rms_norm(module: nn.Module, inputs: Tensor, errors: Tensor) -> Mapping[str, Gradient]:
    """y = w ∘ x / root mean square, as Llama has it."""
    normal = inputs * torch.rsqrt(inputs.square().mean(dim=-1, keepdim=True) + _epsilon(module))
    return {"weight": Paired(errors, normal)}


def embedding(module: nn.Module, inputs: Tensor, errors: Tensor) -> Mapping[str, Gradient]:
    """A linear layer whose inputs are one-hot; they arrive as ids (..., n, 1)."""
    assert isinstance(module, nn.Embedding)
    hot = functional.one_hot(inputs[..., 0].long(), module.num_embeddings).to(errors.dtype)
    if module.padding_idx is not None:
        hot = hot.index_fill(-1, torch.tensor(module.padding_idx, device=hot.device), 0.0)
    return {"weight": Outer(hot, errors)}


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a layer, or None where there is none."""
    for kind, rule in _RULES.items():
        if type(module) is kind:
            return rule
    is_llama_like = type(module).__name__.endswith("RMSNorm") and hasattr(
        module, "variance_epsilon"
    )
    return rms_norm if is_llama_like or type(module) is nn.RMSNorm else None


def _epsilon(module: nn.Module) -> float:
    """What keeps the root away from zero; torch's own layer may leave it to the number format."""
    value = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = module.get_parameter("weight")
    return float(torch.finfo(weight.dtype).eps if value is None else value)


_RULES: Mapping[type[nn.Module], Rule] = {
    nn.Linear: linear,
    Conv1D: conv1d,
    nn.LayerNorm: layer_norm,
    nn.Embedding: embedding,
}
