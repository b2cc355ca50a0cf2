"""Whether the numbers of somebody else's training can be those of the task: what is not, is told.

How often it was trained and tested follows from the task's budget, and which labels the clients of
a federation hold from its data; accuracies and losses have to be possible ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmark.files import LONGEST_REASON
from benchmark.metrics.table import METRICS
from benchmark.results.schema import FederatedResult, RoundResult, UtilityRecord
from benchmark.runs.federated_trial import label_counts
from benchmark.status import Status
from benchmark.suites import Federation, LoadedTask

LARGEST = 1e30
"""Of a loss: training may diverge, but the harness itself takes no more."""


def training_refusals(record: UtilityRecord, side: LoadedTask) -> Iterator[str]:
    """What does not fit in the numbers of a training."""
    task = side.task
    yield from _metrics(record, task.utility)
    for value in record.validation:
        if abs(value) > LARGEST:
            yield f"a validation loss of {value:g} is beyond what can be measured"
    budget = task.federation or task.training
    if budget is not None:
        yield from _lengths(record, budget.rounds, budget.checks)
    if record.federated is not None and task.federation is None:
        yield f"it tells of clients, and {task.name} is not federated"
    elif record.federated is not None and task.federation is not None:
        yield from _federated(record, record.federated, task.federation, side)
    elif task.federation is not None and record.status is Status.OK:
        yield "it tells nothing of its clients"


def _metrics(record: UtilityRecord, expected: Sequence[str]) -> Iterator[str]:
    for name, value in record.metrics.items():
        if name not in expected:
            yield f"there is no utility metric {name[:60]!r}"
            continue
        low, high = METRICS[name].bounds
        if not (-LARGEST if low is None else low) <= value <= (LARGEST if high is None else high):
            yield f"its {name} of {value:g} is beyond what can be measured"
    missing = [name for name in expected if name not in record.metrics]
    if missing and record.status is Status.OK:
        yield f"it is ok although its {missing[0]} is missing"


def _lengths(record: UtilityRecord, rounds: int, checks: int) -> Iterator[str]:
    least = 1 if record.status is Status.OK else 0
    if not least <= (record.rounds or 0) <= rounds:
        yield f"it took {record.rounds} rounds of {rounds}"
    if len(record.validation) > checks + 1:
        yield f"it has {len(record.validation)} validation losses, more than {checks + 1}"


# -------------------------------------------------------------------------------------- federated


def _federated(
    record: UtilityRecord, result: FederatedResult, federation: Federation, side: LoadedTask
) -> Iterator[str]:
    if [each.round for each in result.rounds] != list(range(1, 1 + (record.rounds or 0))):
        yield "its rounds are not there once each, in order"
    if not all(_possible(each, federation.sampled) for each in result.rounds):
        yield f"a round has not the {federation.sampled} clients that are asked in one"
    tested = (*result.global_accuracies, *result.local_accuracies)
    looked_at = (each.accuracy for each in result.rounds)
    if not all(value is None or 0 <= value <= 1 for value in (*tested, *looked_at)):
        yield "an accuracy is not between 0 and 1"
    if not all(len(why) <= LONGEST_REASON and why.isprintable() for why in result.failures):
        yield "a reason why a client failed is too long, or cannot be printed"
    if record.status is Status.OK:
        yield from _clients(record, result, federation, side)


def _possible(given: RoundResult, sampled: int) -> bool:
    counts = (given.answered, given.dropped, given.failed)
    return min(counts) >= 0 and sum(counts) == sampled


def _clients(
    record: UtilityRecord, result: FederatedResult, federation: Federation, side: LoadedTask
) -> Iterator[str]:
    """What a training that has ended says of every client."""
    lengths = {len(result.global_accuracies), len(result.local_accuracies)}
    if lengths != {federation.clients}:
        yield f"it has not an accuracy for each of the {federation.clients} clients"
    clients = side.federated_data(record.seed).clients
    if result.label_counts != label_counts([rows.labels.tolist() for rows in clients]):
        yield "its clients hold other labels than here"
