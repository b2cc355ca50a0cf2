"""Trains a task's model with the very updates that a defense would send, and tests the result.

Training runs the defense's code and so knows no test data; testing happens in a process of its own,
which never loads a submission.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from benchmark.execution.client import make_client, one_update
from benchmark.execution.events import Evaluated, Progress, Trained
from benchmark.execution.jobs import Assignment, EvaluateJob, TrainJob
from benchmark.execution.observing import Emit
from benchmark.execution.randomness import fill, seed_process
from benchmark.execution.seeds import derive_seed
from benchmark.execution.timing import Stopwatch, device_peak_mb, process_peak_mb
from benchmark.plugins import loading
from benchmark.plugins.registry import model_package
from benchmark.spec import Batch, Client, Defense, Update
from benchmark.suites import Mode, Training

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TEST_BATCH = 64


def train(work: TrainJob, assignment: Assignment, device: torch.device, emit: Emit) -> None:
    """Train within the task's budget and store the weights that are kept."""
    from safetensors.torch import save_file

    settings, inbox = work.client, assignment.inbox
    seed_process(derive_seed("construction", work.seed))
    defense = loading.make_defense(work.defense)
    model, _ = model_package().open_model(
        inbox / "model", settings.objective, settings.precision, device
    )
    client = make_client(settings, model, device)
    assert settings.training is not None
    trainer = Trainer(defense, client, settings.training, settings.mode, work.seed)
    validation = read_batch(inbox / "data" / "validation", device)
    curve = trainer.run(read_batch(inbox / "data" / "train", device), validation, emit)
    weights = {n: p.detach().cpu().contiguous() for n, p in model.named_parameters()}
    save_file(weights, assignment.outbox / "weights.safetensors")
    emit(
        Trained(
            rounds=trainer.rounds,
            validation=curve,
            step_seconds=trainer.seconds / trainer.rounds,
            bytes_up=trainer.bytes_up / trainer.rounds,
            epsilon=trainer.epsilon,
            peak_mb=process_peak_mb(),
            device_peak_mb=device_peak_mb(device),
        )
    )


class Trainer:
    """A server and its clients in one: each round one client's update moves the weights.

    Adam takes a weight difference as the gradient that it stands for. What a defense does not share
    stays as it was.
    """

    def __init__(
        self, defense: Defense, client: Client, training: Training, mode: Mode, seed: int
    ) -> None:
        import torch

        self.defense, self.client, self.mode, self.seed = defense, client, mode, seed
        self.training = training
        self.parameters = dict(client.model.named_parameters())
        self.optimizer = torch.optim.Adam(
            list(self.parameters.values()), lr=self.training.learning_rate
        )
        self.rounds, self.seconds, self.bytes_up = 0, 0.0, 0
        self.epsilon: float | None = None

    def run(self, data: Batch, validation: Batch, emit: Emit) -> list[float]:
        """Validation losses, the first before training; ends early where the task wants that."""
        rounds, checks = self.training.rounds, self.training.checks
        looks = {round(rounds * (check + 1) / checks) for check in range(checks)}
        curve = [self.loss(validation)]
        kept = self._weights()
        for number, batch in enumerate(self.batches(data)):
            self.step(batch, derive_seed("round", self.seed, number))
            if self.rounds not in looks:
                continue
            curve.append(self.loss(validation))
            emit(Progress(index=0, step=self.rounds, steps=rounds, loss=curve[-1]))
            if not self.training.early_stopping:
                continue
            if not curve[-1] < curve[-2]:
                self._restore(kept)
                break
            kept = self._weights()
        return curve

    def batches(self, data: Batch) -> Iterator[Batch]:
        """Every sentence once an epoch, in an order that the seed draws."""
        import torch

        generator = torch.Generator()
        fill(generator, derive_seed("order", self.seed))
        size = self.training.batch_size
        for _ in range(self.training.epochs):
            order = torch.randperm(len(data.labels), generator=generator)
            for start in range(0, len(order) // size * size, size):
                yield take(data, order[start : start + size].to(data.labels.device))

    def step(self, batch: Batch, seed: int) -> Update:
        """One round: ask the client for its update and apply it."""
        self.client.model.train(self.mode == "train")
        watch = Stopwatch(self.client.generator.device)
        with watch:
            update = one_update(self.defense, self.client, batch, seed)
        self._apply(update)
        self.rounds += 1
        self.seconds += watch.seconds
        self.bytes_up += update.bytes_up
        self.epsilon = update.epsilon
        return update

    def _apply(self, update: Update) -> None:
        left = 1.0 - self.rounds / self.training.rounds
        for group in self.optimizer.param_groups:
            group["lr"] = self.training.learning_rate * left
        scale = 1.0
        if update.kind == "difference":
            scale = -1.0 / (update.learning_rate * update.local_steps)
        for name, parameter in self.parameters.items():
            tensor = update.tensors.get(name)
            parameter.grad = None if tensor is None else tensor * scale
        self.optimizer.step()
        self.optimizer.zero_grad()

    def loss(self, batch: Batch) -> float:
        """Mean loss per predicted token, or per text of a classifier."""
        losses, tokens = row_losses(self.client, batch)
        return float((losses * tokens).sum() / tokens.sum())

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.parameters.items()}

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        for name, value in weights.items():
            self.parameters[name].data.copy_(value)


# -------------------------------------------------------------------------------------- testing


def evaluate(work: EvaluateJob, assignment: Assignment, device: torch.device, emit: Emit) -> None:
    """What the trained model does on the test split, row by row."""
    from safetensors.torch import load_file

    settings, inbox = work.client, assignment.inbox
    model, tokenizer = model_package().open_model(
        inbox / "model", settings.objective, settings.precision, device
    )
    weights = load_file(inbox / "weights.safetensors")
    for name, parameter in model.named_parameters():
        parameter.data.copy_(weights[name])
    client = make_client(settings, model, device)
    test = read_batch(inbox / "data" / "test", device)
    losses, tokens = row_losses(client, test)
    if not all(math.isfinite(value) for value in losses.tolist()):
        raise ValueError("training diverged: the losses of the trained model are not finite")
    predicted: list[int] = []
    texts: list[str] = []
    if settings.objective == "classification":
        predicted = [c for part in parts(test) for c in classes(model, part)]
    if settings.objective == "translation":
        limit = work.max_tokens
        texts = [t for part in parts(test) for t in _translations(model, tokenizer, part, limit)]
    emit(
        Evaluated(losses=losses.tolist(), tokens=tokens.tolist(), predicted=predicted, texts=texts)
    )


def row_losses(client: Client, batch: Batch) -> tuple[Tensor, Tensor]:
    """Loss and number of predicted tokens of each row, on the CPU, with dropout off."""
    import torch

    client.model.eval()
    with torch.inference_mode():
        losses = [client.objective.losses(client.model, part).cpu() for part in parts(batch)]
    labels = batch.labels.cpu()
    if labels.dim() == 1:
        tokens = torch.ones_like(labels)
    elif client.objective.name == "causal-lm":
        tokens = (labels[:, 1:] >= 0).sum(dim=1)
    else:
        tokens = (labels >= 0).sum(dim=1)
    return torch.cat(losses).double(), tokens


def classes(model: PreTrainedModel, batch: Batch) -> list[int]:
    """The class that a classifier finds likeliest for each row."""
    import torch

    with torch.inference_mode():
        logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    found: list[int] = logits.argmax(dim=1).tolist()
    return found


class Translator(Protocol):
    """A model that writes: transformers' `generate`, as far as it is used here."""

    def generate(
        self,
        *,
        input_ids: Tensor,
        attention_mask: Tensor,
        max_new_tokens: int,
        num_beams: int,
        do_sample: bool,
    ) -> Tensor:
        """Token ids of a text for each row."""


def _translations(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: Batch, max_tokens: int
) -> list[str]:
    import torch

    with torch.inference_mode():
        ids = cast(Translator, model).generate(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            max_new_tokens=max_tokens,
            num_beams=1,
            do_sample=False,
        )
    return [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]


# ---------------------------------------------------------------------------------------- batches


def read_batch(path: Path, device: torch.device) -> Batch:
    """A batch as the harness stored it."""
    from safetensors.torch import load_file

    package = model_package()
    return package.batch({name: tensor.to(device) for name, tensor in load_file(path).items()})


def parts(batch: Batch) -> Iterator[Batch]:
    """All rows in order, a few at a time."""
    import torch

    rows = torch.arange(len(batch.labels), device=batch.labels.device)
    for start in range(0, len(rows), TEST_BATCH):
        yield take(batch, rows[start : start + TEST_BATCH])


def take(batch: Batch, rows: Tensor) -> Batch:
    """Some rows, cut to the longest of them."""
    mask = batch.attention_mask[rows]
    width = int(mask.sum(dim=1).max())
    labels = batch.labels[rows]
    if labels.dim() == 2:
        labels = labels[:, : max(1, int((labels >= 0).sum(dim=1).max()))]
    return Batch(batch.input_ids[rows, :width], mask[:, :width], labels)


__all__ = ["Trainer", "classes", "evaluate", "parts", "read_batch", "take", "train"]
