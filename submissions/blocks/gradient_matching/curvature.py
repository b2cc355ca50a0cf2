"""Layers whose second derivatives are written out.

Matching differentiates twice. Autograd puts the second derivative of a layer norm together from
forty operations and evaluates that of a GELU from its beginning; here it is a third of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers.activations import GELUActivation

_ONLY_INPUT = (True, False, False)
"""Parameters of the layers are constants here."""


class _Gelu(torch.autograd.Function):
    """x Φ(x)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        return functional.gelu(x)

    @staticmethod
    def backward(context: Any, error: Tensor) -> Tensor:
        (x,) = context.saved_tensors
        if context.__dict__.get("slope") is None:
            context.slope = torch.ops.aten.gelu_backward(torch.ones_like(x), x)
        result: Tensor = _GeluSlope.apply(error, x, context.slope)  # type: ignore[no-untyped-call]
        return result


class _GeluSlope(torch.autograd.Function):
    """The error times Φ(x) + x φ(x), whose derivative is φ(x) (2 - x²)."""

    @staticmethod
    def forward(context: Any, error: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        context.save_for_backward(error, x, slope)
        return error * slope

    @staticmethod
    @once_differentiable
    def backward(context: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:
        error, x, slope = context.saved_tensors
        square = x.square()
        curve = square.mul(-0.5).exp_().mul_(2 - square).mul_(1 / math.sqrt(2 * math.pi))
        return change * slope, curve.mul_(change).mul_(error), None


class _LayerNorm(torch.autograd.Function):
    """w ∘ n + b with n = (x - mean) r, r one over the deviation."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        result, mean, r = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        context.save_for_backward(x, mean, r, weight)
        return result

    @staticmethod
    def backward(context: Any, error: Tensor) -> tuple[Tensor, None, None, None]:
        x, mean, r, weight = context.saved_tensors
        found: Tensor = _LayerNormSlope.apply(error, x, mean, r, weight)  # type: ignore[no-untyped-call]
        return found, None, None, None


class _LayerNormSlope(torch.autograd.Function):
    """r P (w ∘ error), where P takes away the mean and what is along n."""

    @staticmethod
    def forward(
        context: Any, error: Tensor, x: Tensor, mean: Tensor, r: Tensor, weight: Tensor
    ) -> Tensor:
        slope = _projected(error, x, mean, r, weight)
        context.save_for_backward(error, x, mean, r, weight, slope)
        return slope

    @staticmethod
    @once_differentiable
    def backward(context: Any, change: Tensor) -> tuple[Tensor | None, ...]:
        """With v the change, h = w ∘ error and ⟨·, ·⟩ a mean of products: w ∘ r P v for the error,
        and -r (⟨h, n⟩ r P v + ⟨v, n⟩ r P h + ⟨v, r P h⟩ n) for x."""
        error, x, mean, r, weight, slope = context.saved_tensors
        moved = _projected(change, x, mean, r, None)
        n = (x - mean) * r
        total = moved * _mean(n * error * weight)
        total.addcmul_(slope, _mean(change * n)).addcmul_(n, _mean(change * slope))
        return moved * weight, total.mul_(-r), None, None, None


def _projected(values: Tensor, x: Tensor, mean: Tensor, r: Tensor, weight: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.aten.native_layer_norm_backward(
        values, x, x.shape[-1:], mean, r, weight, None, _ONLY_INPUT
    )[0]
    return found


def _mean(values: Tensor) -> Tensor:
    return values.mean(dim=-1, keepdim=True)


def _gelu(module: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
    return found


def _layer_norm(module: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(module, nn.LayerNorm)
    found: Tensor = _LayerNorm.apply(x, module.weight, module.bias, module.eps)  # type: ignore[no-untyped-call]
    return found


def _rule(module: nn.Module) -> Callable[[nn.Module, Tensor], Tensor] | None:
    if isinstance(module, GELUActivation):
        return _gelu if module.act is functional.gelu else None
    if type(module) is not nn.LayerNorm or len(module.normalized_shape) > 1:
        return None
    return None if module.weight is None or module.bias is None else _layer_norm


@contextmanager
def written_out(model: nn.Module, when: Callable[[], bool]) -> Iterator[None]:
    """Such layers of the model compute in this way `when` that is asked for."""
    changed = {module: rule for module in model.modules() if (rule := _rule(module)) is not None}

    def forward(module: nn.Module, rule: Callable[..., Tensor], usual: Any, x: Tensor) -> Tensor:
        result: Tensor = rule(module, x) if when() else usual(x)
        return result

    try:
        for module, rule in changed.items():
            module.forward = partial(forward, module, rule, module.forward)
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)
