"""What is known about one observed update before the search: targets, lengths, special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchmark.spec import Observation, Public, Role, Update
from submissions.blocks.sentences import sentence_lengths, special_tokens

_DENSE = 0.5
"""An update with fewer entries left than this share was pruned or masked."""
_FEW_LABELS = 4
"""Up to so many classes, an unknown label of a batch of one is found by trying each."""


@dataclass(frozen=True)
class Problem:
    """One observed update under one assumption about its labels."""

    observation: Observation
    number: int
    """Which of the observations this is."""
    target: Mapping[str, Tensor]
    """The gradient to match, by parameter name."""
    lengths: tuple[int, ...]
    """Tokens of each sample, special tokens counted."""
    classes: tuple[int, ...] | None
    """Class of each sample, known or assumed; None where labels are tokens or optimized."""
    seed: int
    skips_zeros: bool = True
    """Whether zeros are left out where a defense has made most entries zero."""

    @cached_property
    def sparse(self) -> bool:
        """Whether zeros are left out."""
        entries = sum(tensor.numel() for tensor in self.target.values())
        left = sum(int(tensor.count_nonzero()) for tensor in self.target.values())
        return self.skips_zeros and left < _DENSE * entries


@dataclass(frozen=True)
class Layout:
    """Where tokens are sought, for P problems padded to one length."""

    mask: Tensor  # (P, B, T) 1 where there is a token
    fixed_ids: Tensor  # (P, B, T) id of each special token and of the padding, -1 elsewhere

    @property
    def free(self) -> Tensor:
        """(P, B, T), true where a token is sought."""
        return self.fixed_ids < 0


def problems_of(
    observation: Observation, number: int, optimize_labels: bool, skips_zeros: bool = True
) -> list[Problem]:
    """One problem, or one for each class where the label has to be tried."""
    target = matched_gradient(observation)
    lengths = sentence_lengths(observation)
    classes = observation.labels
    guesses: Sequence[tuple[int, ...] | None] = [classes]
    if observation.public.objective.name != "classification" or optimize_labels:
        guesses = [None]
    elif classes is None and observation.batch_size == 1:
        count = class_count(observation.public)
        guesses = [(c,) for c in range(count)] if count <= _FEW_LABELS else [None]
    seeds = [observation.seed + (index << 40) for index in range(len(guesses))]
    return [
        Problem(observation, number, target, lengths, guess, seed, skips_zeros)
        for guess, seed in zip(guesses, seeds, strict=True)
    ]


def matched_gradient(observation: Observation) -> dict[str, Tensor]:
    """The shared gradient of every parameter but the word embedding, which all papers leave out.

    A weight difference after k steps counts as k learning rates times a gradient of the batch
    (LAMP, section 5, FedAvg), up to the sign.
    """
    public, update = observation.public, observation.update
    scale = _scale(update)
    left_out = public.roles.names[Role.WORD_EMBEDDING]
    target = {}
    for name, parameter in public.model.named_parameters():
        if name in update.tensors and name != left_out:
            tensor = update.tensors[name].to(parameter)
            target[name] = tensor if scale == 1.0 else tensor / scale
    if not target:
        raise ValueError("the update shares nothing but word embeddings, so nothing can be matched")
    for name, tensor in target.items():
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"the update of {name} holds NaN or infinite values")
    if not any(bool(tensor.any()) for tensor in target.values()):
        raise ValueError("the update is zero in every matched parameter, so it says nothing")
    return target


def _scale(update: Update) -> float:
    """What a gradient of the batch was multiplied by to become the update, nearly."""
    return -update.learning_rate * update.local_steps if update.kind == "difference" else 1.0


def layout_of(problems: Sequence[Problem]) -> Layout:
    """Special tokens at their places, padding to the longest sentence of all problems."""
    public = problems[0].observation.public
    before, after = special_tokens(public)
    padding = (after or before or [0])[-1]
    width = max(length for problem in problems for length in problem.lengths)
    shape = (len(problems), len(problems[0].lengths), width)
    fixed, mask = torch.full(shape, -1), torch.zeros(shape, dtype=torch.long)
    for p, problem in enumerate(problems):
        for b, length in enumerate(problem.lengths):
            mask[p, b, :length] = 1
            fixed[p, b, length:] = padding
            fixed[p, b, : len(before)] = torch.tensor(before, dtype=torch.long)[:length]
            end = max(len(before), length - len(after))
            fixed[p, b, end:length] = torch.tensor(after, dtype=torch.long)[: length - end]
    return Layout(mask.to(public.device), fixed.to(public.device))


def class_count(public: Public) -> int:
    """Number of classes of a classifier."""
    output = public.model.get_parameter(public.roles.names[Role.OUTPUT])
    return int(output.shape[0])
