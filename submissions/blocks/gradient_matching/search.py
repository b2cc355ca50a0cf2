"""The search for embeddings: state and continuous steps.

Several problems are searched side by side. Nothing passes between them: each has its own target,
its own source of randomness and its own best state, and Adam works entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from submissions.blocks.clock import Clock
from submissions.blocks.gradient_matching.matcher import Matcher
from submissions.blocks.gradient_matching.problem import Layout, Problem
from submissions.blocks.gradient_matching.replay import Function, Replay, Unrecordable
from submissions.blocks.gradient_matching.samples import Points

_WORTH_RECORDING = 50
"""Steps from which on recording one, which takes as long as thirty, pays."""
_REPORTS = 100
"""How often a search reports its progress."""


@dataclass(frozen=True)
class Descent:
    """Settings of the continuous steps."""

    steps: int
    learning_rate: float
    decay: float = 1.0
    """Factor on the learning rate every `decay_every` steps."""
    decay_every: int = 50
    optimizer: str = "adam"
    """`adam`, or `adamw` with a linear schedule, as the papers run BERT large."""
    horizon: int = 10_000
    """Steps over which the linear schedule falls to zero."""
    clip: float = 0.0
    """Largest norm of a problem's gradient; 0: any."""


class Search:
    """The state of P problems under search."""

    def __init__(
        self,
        problems: Sequence[Problem],
        layout: Layout,
        matcher: Matcher,
        descent: Descent,
        length_weight: float,
        budget: int,
        share: float = 1.0,
    ) -> None:
        """`length_weight`: α_reg; `budget`: bytes that scoring a chunk of candidates may take;
        `share`: how much of the remaining time this search may use."""
        self.problems = problems
        self.layout = layout
        self.matcher = matcher
        self.descent = descent
        self.length_weight = length_weight
        self.budget = budget
        self.clock = Clock(self.seconds_left, share)
        self.vocabulary = matcher.samples.vocabulary
        self.mean_norm = self.vocabulary.table.norm(dim=1).mean()
        self.generators = [torch.Generator().manual_seed(problem.seed) for problem in problems]
        self.fixed = self.vocabulary.table[layout.fixed_ids.clamp_min(0)]  # (P, B, T, D)
        self.embeddings = self.fixed.clone()
        self.label_logits: Tensor | None = None  # (P, B, classes) or (P, B, T, V)
        self.best = self.embeddings
        self.best_losses = self.fixed.new_full((len(problems),), float("inf"))
        self.stopped_at: int | None = None

    @cached_property
    def places(self) -> list[list[Tensor]]:
        """Where the tokens of each sentence of each problem are sought."""
        free = self.layout.free.cpu()
        return [[sentence.nonzero().flatten() for sentence in problem] for problem in free]

    def begin(self, embeddings: Tensor, label_logits: Tensor | None) -> None:
        """Start the descent from here."""
        settings = self.descent
        self.embeddings = embeddings.detach().clone().requires_grad_()
        self.variables = [self.embeddings]
        if label_logits is not None:
            self.label_logits = label_logits.detach().clone().requires_grad_()
            self.variables.append(self.label_logits)
        self.optimizer: torch.optim.Optimizer
        self.schedule: torch.optim.lr_scheduler.LRScheduler
        if settings.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(
                self.variables, lr=settings.learning_rate, eps=1e-6, weight_decay=0.01
            )
            self.schedule = torch.optim.lr_scheduler.LinearLR(
                self.optimizer, 1.0, 0.0, total_iters=settings.horizon
            )
        else:
            self.optimizer = torch.optim.Adam(self.variables, lr=settings.learning_rate)
            self.schedule = torch.optim.lr_scheduler.StepLR(
                self.optimizer, settings.decay_every, settings.decay
            )

    def steps(self) -> Iterator[int]:
        """1, 2, ... up to the last step, fewer when the harness's time runs short."""
        done = 0
        for done in self.clock.steps(self.descent.steps):
            yield done
        self.stopped_at = done if done < self.descent.steps else None

    def seconds_left(self) -> float:
        """Time until the harness ends the first of these recoveries."""
        return min(problem.observation.seconds_left() for problem in self.problems)

    def descend(self, step: int) -> None:
        """One optimizer step on the reconstruction loss.

        The loss belongs to the point before the step, and with that point it is kept.
        """
        losses, *gradients = self._slopes(*self.variables)
        self.keep(losses)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.grad = self._clipped(gradient)
        self.optimizer.step()
        self.schedule.step()
        self.replace(torch.where(self.layout.free[..., None], self.embeddings, self.fixed))
        self._report(step, losses)

    @cached_property
    def _slopes(self) -> Function:
        """L_rec of each problem and its gradients, recorded where that pays."""
        if self.matcher.recordable and self.descent.steps >= _WORTH_RECORDING:
            with suppress(Unrecordable):
                return Replay(self._differentiated, *self.variables)
        return self._differentiated

    def _differentiated(self, *variables: Tensor) -> tuple[Tensor, ...]:
        """L_rec at embeddings, and label logits where they are optimized, and its gradients."""
        leaves = [variable.detach().requires_grad_() for variable in variables]
        embeddings, *logits = (leaf[:, None] for leaf in leaves)
        losses = self.reconstruction(Points(embeddings, *logits))[:, 0]  # (P,)
        return losses.detach(), *torch.autograd.grad(losses.sum(), leaves)

    def reconstruction(self, points: Points) -> Tensor:
        """L_rec = L_grad + α_reg L_reg (LAMP, section 4.2), differentiable, (P, K)."""
        losses = self.matcher.losses(points, differentiable=True)
        return losses + self.length_penalty(points.embeddings)

    def length_penalty(self, embeddings: Tensor) -> Tensor:
        """α_reg L_reg: squared difference of the mean embedding length to the table's, (P, K)."""
        if not self.length_weight:
            return embeddings.new_zeros(())
        real = self.layout.mask[:, None].to(embeddings.dtype)  # (P, 1, B, T)
        lengths = (embeddings.norm(dim=-1) * real).sum(dim=(2, 3)) / real.sum(dim=(2, 3))
        penalty: Tensor = self.length_weight * (lengths - self.mean_norm).square()
        return penalty

    def points(self, embeddings: Tensor) -> Points:
        """Candidates (P, K, B, T, D) with the current label logits."""
        logits = self.label_logits
        if logits is not None:
            logits = logits[:, None].expand(-1, embeddings.shape[1], *logits.shape[1:])
        return Points(embeddings, logits)

    @torch.no_grad()
    def replace(self, embeddings: Tensor, label_logits: Tensor | None = None) -> None:
        """Go on from here with the optimizer as it is."""
        self.embeddings.copy_(embeddings)
        if self.label_logits is not None and label_logits is not None:
            self.label_logits.copy_(label_logits)

    def settle(self, distances: Tensor) -> None:
        """Forget the best points so far for the current ones, whose gradient distance is given."""
        self.best_losses = distances.to(self.best_losses)
        self.best_losses += self.length_penalty(self.embeddings.detach()[:, None]).squeeze(-1)
        self.best = self.embeddings.detach().clone()

    def keep(self, losses: Tensor) -> None:
        """Remember the current points where their reconstruction loss is the best so far."""
        better = losses < self.best_losses  # (P,)
        self.best_losses = torch.where(better, losses, self.best_losses)
        self.best = torch.where(
            better[:, None, None, None], self.embeddings.detach().clone(), self.best
        )

    def tokens(self, embeddings: Tensor) -> list[list[list[int]]]:
        """Nearest allowed tokens of every sentence of every problem, special tokens left out."""
        nearest = self.vocabulary.nearest(embeddings.detach()).cpu()  # (P, B, T)
        return [
            [nearest[p, b, places].tolist() for b, places in enumerate(sentences)]
            for p, sentences in enumerate(self.places)
        ]

    def _clipped(self, gradient: Tensor) -> Tensor:
        """Each problem's gradient with its norm cut at the limit."""
        if not self.descent.clip:
            return gradient
        norms = gradient.flatten(1).norm(dim=1).view(-1, *(1 for _ in gradient.shape[1:]))
        return gradient * torch.clamp(self.descent.clip / (norms + 1e-6), max=1.0)

    def _report(self, step: int, losses: Tensor) -> None:
        steps = self.descent.steps
        if step == steps or step % max(1, steps // _REPORTS) == 0:
            for problem, loss in zip(self.problems, losses.tolist(), strict=True):
                problem.observation.report(step, steps, loss)
