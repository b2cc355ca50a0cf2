"""The loss of every sample under candidate embeddings, with labels that are known or guessed.

Classification: the class is known (or assumed by the problem), or a distribution over classes is
optimized with the embeddings, as DLG does. Language modeling: the labels are the tokens, so a
position's label is the distribution over the vocabulary that its own embedding suggests, a softmax
over the cosine to every token; at the true embedding it is the true label. With optimized labels
it is a free distribution instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmark.spec import Batch, Objective

IGNORED = -100
"""Label of a position where nothing is predicted."""


@dataclass(frozen=True)
class Points:
    """K candidates of each of P problems."""

    embeddings: Tensor  # (P, K, B, T, D)
    label_logits: Tensor | None = None  # (P, K, B, classes) or (P, K, B, T, V), where optimized

    def __getitem__(self, candidates: slice) -> Points:
        logits = self.label_logits
        return Points(
            self.embeddings[:, candidates], None if logits is None else logits[:, candidates]
        )

    @property
    def count(self) -> int:
        """K."""
        return int(self.embeddings.shape[1])


@dataclass(frozen=True)
class Vocabulary:
    """The table that embeddings are compared with; tokens that may not occur are left out."""

    table: Tensor  # (V, D)
    allowed: Tensor  # (V,) bool
    sharpness: float
    """Inverse temperature of the softmax over cosines (a guess: no paper has this)."""

    def similarity(self, embeddings: Tensor) -> Tensor:
        """Cosine to every token, minus infinity at those that may not occur, (..., V)."""
        table = functional.normalize(self.table, dim=1)
        cosine = functional.normalize(embeddings, dim=-1) @ table.T
        return cosine.masked_fill(~self.allowed, float("-inf"))

    def nearest(self, embeddings: Tensor) -> Tensor:
        """PROJECTTOVOCAB of LAMP: the allowed token of largest cosine, (...)."""
        return self.similarity(embeddings).argmax(dim=-1)

    def suggested(self, embeddings: Tensor) -> Tensor:
        """A distribution over the tokens, (..., V)."""
        return (self.similarity(embeddings) * self.sharpness).softmax(dim=-1)


@dataclass(frozen=True)
class Samples:
    """What is needed to turn candidate embeddings into losses."""

    model: nn.Module
    objective: Objective
    vocabulary: Vocabulary
    mask: Tensor  # (P, B, T) 1 where there is a token
    fixed_ids: Tensor  # (P, B, T) id of each special token, -1 where a token is sought
    classes: Tensor | None = None  # (P, B) where known
    optimized_labels: int = 0
    """Number of classes or tokens that optimized labels are spread over; 0: none are."""

    def label_shape(self) -> tuple[int, ...]:
        """Shape of one problem's optimized label logits, (B, classes) or (B, T, V)."""
        _, batch, width = self.mask.shape
        tokens = (width,) if self.objective.name == "causal-lm" else ()
        return (batch, *tokens, self.optimized_labels)

    def only(self, problems: Sequence[int]) -> Samples:
        """The samples of some of the problems."""
        which = torch.tensor(problems, device=self.mask.device)
        classes = None if self.classes is None else self.classes[which]
        return replace(
            self, mask=self.mask[which], fixed_ids=self.fixed_ids[which], classes=classes
        )

    def blank(self) -> Points:
        """One candidate of each problem, the same token everywhere."""
        embeddings = self.vocabulary.table[:1].expand(*self.mask.shape, -1)[:, None].clone()
        logits = None
        if self.optimized_labels:
            logits = embeddings.new_zeros(len(self.mask), 1, *self.label_shape())
        return Points(embeddings, logits)

    @cached_property
    def bytes_per_row(self) -> int:
        """Memory that the forward pass of one sample saves for the backward pass."""
        saved: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        points = self.blank()
        points.embeddings.requires_grad_()
        with (
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
        ):
            self.losses(points)
        for parameter in self.model.parameters():
            saved.pop(parameter.untyped_storage().data_ptr(), None)
        return max(1, sum(saved.values()) // self.mask.shape[:2].numel())

    def losses(self, points: Points) -> Tensor:
        """Loss of each sample, (P K B,), differentiable in the embeddings and label logits."""
        rows = points.embeddings.flatten(0, 2)  # (N, T, D)
        mask = self._rows(self.mask, points.count)  # (N, T)
        if self.classes is not None:
            labels = self._rows(self.classes, points.count)  # (N,)
            return self.objective.losses(self.model, Batch(mask, mask, labels), rows)
        if self.objective.name == "causal-lm":
            return self._token_losses(points, rows, mask)
        logits = self._logits(Batch(mask, mask, mask.new_zeros(len(mask))), rows)  # (N, classes)
        assert points.label_logits is not None
        labels = points.label_logits.flatten(0, 2).softmax(dim=-1)
        return functional.cross_entropy(logits, labels, reduction="none")

    def _token_losses(self, points: Points, rows: Tensor, mask: Tensor) -> Tensor:
        """Cross-entropy with soft labels, a mean over each sample's predicted tokens, (N,)."""
        labels = torch.zeros_like(mask).masked_fill(mask == 0, IGNORED)
        logits = self._logits(Batch(mask, mask, labels), rows)[:, :-1]  # (N, T - 1, V)
        wanted = self._token_labels(points, rows)[:, 1:]  # (N, T - 1, V)
        losses = logits.logsumexp(dim=-1) - (wanted * logits).sum(dim=-1)  # (N, T - 1)
        predicted = mask[:, 1:].to(losses.dtype)
        return (losses * predicted).sum(dim=1) / predicted.sum(dim=1).clamp_min(1)

    def _token_labels(self, points: Points, rows: Tensor) -> Tensor:
        """Distribution over the vocabulary at each position, certain where a token is known."""
        if points.label_logits is None:
            soft = self.vocabulary.suggested(rows)
        else:
            soft = points.label_logits.flatten(0, 2).softmax(dim=-1)
        known = self._rows(self.fixed_ids, points.count)  # (N, T)
        certain = functional.one_hot(known.clamp_min(0), soft.shape[-1]).to(soft.dtype)
        return torch.where((known >= 0)[..., None], certain, soft)

    def _logits(self, batch: Batch, rows: Tensor) -> Tensor:
        """What the model answers when the objective asks it, whatever the objective makes of it."""
        with _answers(self.model) as answers:
            self.objective.losses(self.model, batch, rows)
        return answers[0].logits

    def _rows(self, values: Tensor, count: int) -> Tensor:
        """(P, B, ...) repeated for K candidates, (P K B, ...)."""
        return values[:, None].expand(-1, count, *values.shape[1:]).flatten(0, 2)


class Answer(Protocol):
    """What a model returns."""

    logits: Tensor


@contextmanager
def _answers(model: nn.Module) -> Iterator[list[Answer]]:
    """Collects what the model returns."""
    answers: list[Answer] = []
    hook = model.register_forward_hook(lambda module, inputs, output: answers.append(output))
    try:
        yield answers
    finally:
        hook.remove()
