"""How a client of a federated task trains on its own rows: the task's optimizer, step by step.

Every step's gradient is the defense's own, the one that is under attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmark.errors import InvalidUpdate
from benchmark.execution.randomness import fill
from benchmark.execution.seeds import derive_seed
from benchmark.execution.trainer import take
from benchmark.plugins.composition import overrides
from benchmark.spec import Batch, Client, Defense, Update
from benchmark.suites import Federation, Mode

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Gradient = Callable[[Batch, Sequence[str]], Mapping[str, "Tensor"]]


@dataclass
class LocalTrainer:
    """What `Client.train` does in one round; each call starts a fresh optimizer."""

    defense: Defense
    client: Client
    federation: Federation
    mode: Mode
    round: int
    seed: int
    calls: int = 0
    epsilon: float | None = None

    def __call__(self, rows: Batch, names: Sequence[str], epochs: int) -> None:
        """Train the named parameters in place."""
        self.calls += 1
        if not names or not len(rows.labels):
            return
        parameters = dict(self.client.model.named_parameters())
        trained = [parameters[name] for name in names]
        optimizer = self._optimizer(trained)
        self.client.model.train(self.mode == "train")
        for batch in self._batches(rows, epochs):
            gradients = self._gradient(batch, names)
            for name in names:
                parameters[name].grad = gradients.get(name)
            self._step(optimizer, trained)
        self.client.model.eval()

    def _step(self, optimizer: torch.optim.Optimizer, trained: Sequence[Tensor]) -> None:
        import torch

        norm = torch.nn.utils.clip_grad_norm_(trained, self.federation.clip)
        if not bool(norm.isfinite()):
            raise InvalidUpdate("a local step's gradient holds NaN or infinite values")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def _optimizer(self, trained: Sequence[Tensor]) -> torch.optim.Optimizer:
        import torch

        rate = self.federation.learning_rate
        rate *= 1.0 - self.round / self.federation.rounds if self.federation.decay else 1.0
        return torch.optim.Adam(list(trained), lr=rate)

    def _batches(self, rows: Batch, epochs: int) -> Iterator[Batch]:
        """Every row once an epoch, in an order that the seed draws."""
        import torch

        generator = torch.Generator()
        fill(generator, derive_seed("local order", self.seed, self.calls))
        size = self.federation.batch_size
        for _ in range(epochs):
            order = torch.randperm(len(rows.labels), generator=generator)
            for start in range(0, len(order), size):
                yield take(rows, order[start : start + size].to(rows.labels.device))

    def _gradient(self, batch: Batch, names: Sequence[str]) -> Mapping[str, Tensor]:
        """The gradient that the defense computes, as for a client that sends each of them."""
        if "client_update" in overrides(type(self.defense)):
            update = self.defense.client_update(self.client, batch)
        else:
            update = self.defense.local_update(self.client, batch, names)
        if not isinstance(update, Update):
            raise InvalidUpdate(f"a local step gave {type(update).__name__} instead of an Update")
        self.epsilon = update.epsilon
        return update.tensors
