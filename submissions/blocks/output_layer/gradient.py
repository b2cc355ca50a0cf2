"""The gradient of the output layer, checked, and its row sums."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmark.spec import Observation, Public, Role


def output_gradient(observation: Observation) -> Tensor | None:
    """The observed gradient (V, D), or None where it was not shared."""
    gradient = observation.gradient(Role.OUTPUT)
    if gradient is None:
        return None
    model = observation.public.model
    shape = model.get_parameter(observation.public.roles.names[Role.OUTPUT]).shape
    if gradient.shape != shape:
        raise ValueError(
            f"the output-layer gradient has the shape {tuple(gradient.shape)}, "
            f"but the layer has {tuple(shape)}"
        )
    return gradient


def row_sums(gradient: Tensor) -> Tensor:
    """s of FLAT-CHAT, equation 5, scaled to length 1, (V,): one pass over the matrix.

    What is not a number stays so in a sum, so the sums are all that has to be checked.
    """
    sums = gradient.sum(dim=1)
    if not bool(sums.isfinite().all()):
        raise ValueError("the output-layer gradient holds NaN or infinite values")
    length = float(sums.norm())
    return sums / length if length else sums


def candidates(public: Public, rows: int) -> Tensor:
    """Numbers of the rows that may be private tokens: in the vocabulary and not special, (C,)."""
    allowed = torch.ones(rows, dtype=torch.bool)
    allowed[len(public.tokenizer) :] = False
    allowed[[i for i in public.forbidden_ids if i < rows]] = False
    return allowed.nonzero().flatten().to(public.device)
