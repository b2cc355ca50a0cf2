"""One training loop for all builtin models, deterministic for a given seed."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from benchmark.execution.trainer import take
from benchmark.spec import Batch

LossFunction = Callable[[Batch, torch.Generator], Tensor]
"""Loss of a batch; the generator is for what the loss draws at random (which words to mask)."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    steps: int
    rate: float
    batch_size: int = 32
    warmup: int = 50
    seed: int = 0

    def factor(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a twentieth of the rate."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))


def fit(
    model: torch.nn.Module,
    data: Batch,
    loss: LossFunction,
    schedule: Schedule,
    stop: int | None = None,
) -> None:
    """Train in place, in eval mode: in these few epochs dropout would only slow learning.

    With `stop`, so many steps of the schedule are taken and the rest is left.
    """
    generator = torch.Generator().manual_seed(schedule.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=schedule.rate, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.factor)
    model.eval()
    began = time.perf_counter()
    for step, rows in enumerate(islice(_row_batches(data, schedule, generator), stop)):
        value = loss(take(data, rows), generator)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        if step % 100 == 0 or step == schedule.steps - 1:
            spent = time.perf_counter() - began
            print(f"  step {step:5d}  loss {value.item():.3f}  {spent:.0f} s", flush=True)


def _row_batches(data: Batch, schedule: Schedule, generator: torch.Generator) -> Iterator[Tensor]:
    """Random batches of rows of similar length, which wastes little on padding."""
    lengths = data.attention_mask.sum(dim=1)
    made = 0
    while made < schedule.steps:
        order = torch.randperm(len(lengths), generator=generator)
        for pool in order.split(schedule.batch_size * 24):
            batches = pool[lengths[pool].argsort(stable=True)].split(schedule.batch_size)
            for index in torch.randperm(len(batches), generator=generator).tolist():
                if made < schedule.steps:
                    made += 1
                    yield batches[index]
