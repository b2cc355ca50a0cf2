"""Losses of candidates: what the traced and the plain way of computing them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from submissions.blocks.gradient_matching.distances import Distance
from submissions.blocks.gradient_matching.samples import Points, Samples


class Matcher(ABC):
    """Compares the gradients of candidates with the targets of their problems."""

    recordable: ClassVar[bool] = False
    """Whether a step may be recorded and replayed."""

    def __init__(
        self,
        samples: Samples,
        targets: Sequence[Mapping[str, Tensor]],
        distance: Distance,
        factors: Mapping[str, float],
        sparse: bool = False,
    ) -> None:
        """`factors` names the matched parameters and gives the weight of their L1 terms; zeros
        of `sparse` targets tell nothing."""
        self.samples = samples
        self.targets = targets
        self.distance = distance
        self.factors = factors
        self.sparse = sparse
        self._attachment: AbstractContextManager[None] | None = None

    @abstractmethod
    def attached(self) -> AbstractContextManager[None]:
        """Prepares the model for losses and puts it back; `with matcher:` does just that."""

    def __enter__(self) -> Self:
        self._attachment = self.attached()
        self._attachment.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._attachment is not None
        self._attachment.__exit__(None, None, None)

    @abstractmethod
    def losses(self, points: Points, differentiable: bool) -> Tensor:
        """Distance of each candidate's gradient to its problem's target, (P, K)."""

    @abstractmethod
    def candidates_at_once(self, budget: int) -> int:
        """How many candidates of every problem fit into so many bytes when they are scored."""

    def scores(self, points: Points, budget: int) -> Tensor:
        """The same losses for any number of candidates, without a graph, chunk by chunk."""
        size = self.candidates_at_once(budget)
        chunks = [points[i : i + size] for i in range(0, points.count, size)]
        return torch.cat([self.losses(chunk, differentiable=False) for chunk in chunks], dim=1)

    def only(self, problems: Sequence[int]) -> Self:
        """A matcher of some of the problems, to be used while this one is attached."""
        if len(problems) == len(self.targets):
            return self
        few = copy(self)
        few.samples = self.samples.only(problems)
        few.targets = [self.targets[p] for p in problems]
        return few

    def batch_losses(self, points: Points) -> Tensor:
        """Loss of each candidate's batch, the mean of its samples' losses, (P, K)."""
        problems, count, batch = points.embeddings.shape[:3]
        return self.samples.losses(points).view(problems, count, batch).mean(dim=2)


@contextmanager
def requiring_grad(model: nn.Module, names: frozenset[str]) -> Iterator[None]:
    """Only the named parameters ask for gradients; afterwards everything is as it was."""
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    try:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in names)
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(before[name])
