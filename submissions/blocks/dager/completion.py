"""Least squares on what a pruned or masked gradient still shows.

A gradient of few tokens has low rank, so its missing entries follow from the others: rows and
columns of a product of two thin matrices are fitted in turn, each by least squares on the entries
that were sent. The rank grows until the fit has nothing left to explain, or the next one would take
more than its share of counted work.
"""

from __future__ import annotations

import torch
from torch import Tensor

HOLES = 0.05
"""Share of zeros in the rows that were sent above which zeros count as missing."""
SWEEPS = 20
RIDGE = 1e-9
FITTED = 1e-6
"""Relative error of the fit at which the rank is high enough."""
GROWTH = 1.35
WORK = 300_000_000_000
"""Multiplications of all fits: rank 70 of layers that are 384 or 576 wide, 39 of one 768 wide."""


def completed(gradient: Tensor) -> Tensor:
    """The gradient (M, D) with missing entries filled in; as it is where none are missing."""
    gradient = gradient[gradient.any(dim=1)]
    sent = gradient != 0
    if not len(gradient) or float(sent.double().mean()) > 1 - HOLES:
        return gradient
    scale = gradient.square().sum(dim=1, keepdim=True).sqrt()
    target, mask = gradient / scale, sent.double()
    rows, columns = target.shape
    generator = torch.Generator().manual_seed(0)
    best, best_error, rank, spent = target, float("inf"), 2, 0
    right = torch.randn(columns, rank, generator=generator, dtype=torch.float64).to(target.device)
    while rank * (rows + columns - rank) < 0.9 * float(mask.sum()):
        spent += (2 * SWEEPS + 1) * rows * columns * rank**2
        if spent > WORK:
            break
        for _ in range(SWEEPS):
            left = _fit(target, mask, right)
            right = _fit(target.T, mask.T, torch.linalg.qr(left).Q)
            right = torch.linalg.qr(right).Q
        left = _fit(target, mask, right)
        fit = left @ right.T
        left_over = float(mask.sum()) - rank * (rows + columns - rank)
        error = float(((fit - target) * mask).square().sum()) / left_over
        if error < best_error:
            best, best_error = fit, error
        if error * rows < FITTED**2:
            break
        more = max(rank + 1, int(rank * GROWTH)) - rank
        fresh = torch.randn(columns, more, generator=generator, dtype=torch.float64)
        right = torch.cat([right, fresh.to(right.device) / columns**0.5], dim=1)
        rank += more
    if best is target:
        return gradient
    return torch.where(sent, gradient, best * scale)


def _fit(target: Tensor, mask: Tensor, basis: Tensor) -> Tensor:
    """Coefficients (M, R) of each row in a basis (D, R), by least squares on what was sent."""
    rank = basis.shape[1]
    pairs = (basis[:, :, None] * basis[:, None, :]).flatten(1)  # (D, R R)
    products = (mask @ pairs).view(-1, rank, rank)  # (M, R, R)
    products.diagonal(dim1=1, dim2=2).add_(RIDGE)
    solution: Tensor = torch.linalg.solve(products, (target * mask) @ basis)
    return solution
