"""Gradients that are measured entry by entry.

Those of matrices are written a few megabytes at a time, which a processor keeps in its cache, once
to measure them and once more for their derivatives: a graph of all of them would be read from and
written to memory a dozen times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from submissions.blocks.gradient_matching.pieces import MatrixPiece, Piece, Table

_AT_ONCE = 1 << 19
"""Entries that are written at a time on a processor."""
_ON_A_GPU = 1 << 26
"""The same on a GPU, which has larger caches and dearer calls."""


@dataclass(frozen=True)
class Target:
    """What is observed of one parameter in P problems."""

    value: Tensor  # (P, *shape)
    kept: Tensor | None = None
    """Which entries a sparse update has left, like the value: zeros elsewhere tell nothing."""

    def left_of(self, values: Tensor) -> Tensor:
        """Values of candidates, (P, K, *shape), zero where nothing is kept."""
        return values if self.kept is None else values * self.kept[:, None]

    @staticmethod
    def joined(several: Sequence[Target]) -> Target:
        """Targets of parameters of one shape behind each other, (L P, *shape)."""
        kept = [target.kept for target in several if target.kept is not None]
        return Target(
            torch.cat([target.value for target in several]), torch.cat(kept) if kept else None
        )

    def __getitem__(self, problems: Tensor | slice) -> Target:
        return Target(self.value[problems], None if self.kept is None else self.kept[problems])


class Measure(ABC):
    """Two numbers of a gradient g, (P, K, *shape), beside its target G, and their derivatives."""

    @abstractmethod
    def of(self, gradient: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        """Both numbers, (P, K)."""

    @abstractmethod
    def change(self, gradient: Tensor, target: Target, first: Tensor, second: Tensor) -> Tensor:
        """The derivative in g for given ones of both numbers, which have as many dimensions."""


class Products(Measure):
    """⟨g, G⟩ and ‖g‖², of the kept entries."""

    def of(self, gradient: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        """The target is zero where nothing is kept."""
        dots = (gradient * target.value[:, None]).flatten(2).sum(dim=2)
        return dots, target.left_of(gradient).square().flatten(2).sum(dim=2)

    def change(self, gradient: Tensor, target: Target, first: Tensor, second: Tensor) -> Tensor:
        """G and 2 g."""
        return (2 * second * target.left_of(gradient)).addcmul_(first, target.value[:, None])


class Differences(Measure):
    """‖g - G‖² and ‖g - G‖₁, of the kept entries."""

    def of(self, gradient: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        difference = target.left_of(gradient - target.value[:, None]).flatten(2)
        return difference.square().sum(dim=2), difference.abs().sum(dim=2)

    def change(self, gradient: Tensor, target: Target, first: Tensor, second: Tensor) -> Tensor:
        """2 (g - G) and its sign."""
        difference = target.left_of(gradient - target.value[:, None])
        return (2 * first * difference).addcmul_(second, difference.sign())


class VectorEntries(Piece):
    """Gradients of several vectors of one length: Σ left, or Σ left ∘ right, of the tokens."""

    written: Tensor  # (L P, K, a)

    def __init__(self, members: Sequence[Sequence[int]], target: Target, how: Measure) -> None:
        """`members`: places of each vector's factors; the target has all of them, (L P, a)."""
        self.members = members
        self.target = target
        self.how = how

    def measure(self, table: Table) -> tuple[Tensor, Tensor]:
        factors = [[table.factors[place] for place in places] for places in self.members]
        sums = [(math.prod(each[1:], start=each[0])).sum(dim=2) for each in factors]
        self.written = torch.cat(sums)
        one, two = self.how.of(self.written, self.target)
        shape = (len(self.members), *sums[0].shape[:2])
        return one.view(shape), two.view(shape)

    def derive(self, table: Table, first: Tensor, second: Tensor) -> None:
        weights = first.flatten(0, 1)[..., 0], second.flatten(0, 1)[..., 0]  # (L P, K, 1)
        changes = self.how.change(self.written, self.target, *weights)[:, :, None]
        for places, change in zip(self.members, changes.chunk(len(self.members)), strict=True):
            if len(places) == 1:
                table.add(places[0], change)
                continue
            for place, other in zip(places, reversed(places), strict=True):
                table.add(place, change * table.factors[other])


class OuterEntries(MatrixPiece):
    """g = leftᵀ right."""

    def __init__(self, places: Sequence[int], target: Target, how: Measure) -> None:
        super().__init__(places)
        self.target = target
        self.how = how

    def measure(self, table: Table) -> tuple[Tensor, Tensor]:
        left, right = (table.factors[place] for place in self.places)
        found = left.new_empty(2, *left.shape[:2])  # (2, P, K)
        for p, k in self._parts(left):
            written = left[p, k].mT @ right[p, k]  # (P, K, a, b)
            found[0, p, k], found[1, p, k] = self.how.of(written, self.target[p])
        return found[0][None], found[1][None]

    def derive(self, table: Table, first: Tensor, second: Tensor) -> None:
        """right ∂gᵀ and left ∂g."""
        first, second = first[0], second[0]
        left, right = (table.factors[place] for place in self.places)
        changes = torch.empty_like(left), torch.empty_like(right)
        for p, k in self._parts(left):
            written = left[p, k].mT @ right[p, k]  # (P, K, a, b)
            change = self.how.change(written, self.target[p], first[p, k], second[p, k])
            changes[0][p, k] = right[p, k] @ change.mT
            changes[1][p, k] = left[p, k] @ change
        for place, change in zip(self.places, changes, strict=True):
            table.add(place, change)

    def _parts(self, factor: Tensor) -> Iterator[tuple[slice, slice]]:
        """Problems and candidates whose gradients are written together."""
        problems, candidates = factor.shape[:2]
        at_once = _AT_ONCE if factor.device.type == "cpu" else _ON_A_GPU
        fitting = max(1, at_once // self.target.value[0].numel())
        problems_at_once = max(1, fitting // candidates)
        for p in range(0, problems, problems_at_once):
            for k in range(0, candidates, fitting):
                yield slice(p, p + problems_at_once), slice(k, k + fitting)
