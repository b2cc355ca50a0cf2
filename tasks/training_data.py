"""The rows that train, validate and test a defense's model, and what the result depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.errors import UserError
from benchmark.suites import Task
from tasks import corpora
from tasks.batches import shuffled
from tasks.corpora.base import Row
from tasks.partitions import FEWEST_ROWS, partition


@dataclass(frozen=True)
class TrainingRows:
    """Rows of a corpus by what they are used for."""

    train: Sequence[Row]
    validation: Sequence[Row]
    test: Sequence[Row]


def training_rows(task: Task) -> TrainingRows:
    """Private rows train, and public ones where those are too few; the test split is divided."""
    budget = task.training
    assert budget is not None
    train = [*corpora.load(task.corpus, "private"), *corpora.load(task.corpus, "public")]
    held_out = corpora.load(task.corpus, "test")
    tested = held_out[budget.validation_rows :][: budget.test_rows]
    if len(train) < budget.rows or not tested:
        raise UserError(
            f"{task.name} trains on {budget.rows} rows and validates on {budget.validation_rows}, "
            f"but {task.corpus} has {len(train)} and {len(held_out)}."
        )
    return TrainingRows(train[: budget.rows], held_out[: budget.validation_rows], tested)


@dataclass(frozen=True)
class FederatedRows:
    """Rows of a corpus by the client that trains on them, and those that are held out."""

    clients: tuple[Sequence[Row], ...]
    validation: Sequence[Row]
    test: Sequence[Row]
    local_tests: tuple[tuple[int, ...], ...]
    """Numbers of the test rows that belong to each client."""


def federated_rows(task: Task, seed: int) -> FederatedRows:
    """Private rows train; the test split is divided, and its test rows are dealt out likewise."""
    budget = task.federation
    assert budget is not None
    train = shuffled(corpora.load(task.corpus, "private"), task.corpus, seed)
    train = train[: budget.clients * budget.local_rows]
    held_out = corpora.load(task.corpus, "test")
    test = held_out[budget.validation_rows :][: budget.test_rows]
    if len(train) < budget.clients * FEWEST_ROWS or not test:
        raise UserError(
            f"{task.name} has {budget.clients} clients and validates on {budget.validation_rows} "
            f"rows, but {task.corpus} has {len(train)} and {len(held_out)}."
        )
    shares = partition(
        [row.label or 0 for row in train],
        [row.label or 0 for row in test],
        budget.clients,
        budget.alpha,
        f"{task.corpus} {seed}",
    )
    clients = tuple([train[number] for number in share] for share in shares.train)
    return FederatedRows(clients, held_out[: budget.validation_rows], test, shares.test)


def training_settings(task: Task) -> dict[str, object]:
    """Everything in a task's definition that training depends on; tasks alike in it share a cost.

    How many sentences are attacked at once and what the attacker knows do not matter here.
    """
    names = (
        *("corpus", "model", "objective", "version", "head", "head_seed", "labels"),
        *("mode", "precision", "local_steps", "utility"),
    )
    settings = {name: getattr(task, name) for name in names}
    settings["learning_rate"] = task.learning_rate if task.local_steps > 1 else None
    settings["training"] = None if task.training is None else vars(task.training)
    settings["federation"] = None if task.federation is None else vars(task.federation)
    return settings
