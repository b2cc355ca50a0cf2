"""Snapshots of a later round: the federated training is run up to there, unless it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmark.execution.jobs import Job
from benchmark.plugins.registry import load_task, trained_as
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.runs.federated_rounds import rounds_before
from benchmark.runs.federated_run import JobLimits, Simulation
from benchmark.runs.federated_store import SimulationStore
from benchmark.runs.utility_plan import training_fingerprint
from benchmark.snapshots.build import ObservedRound
from benchmark.status import Status
from benchmark.suites import Task


def observed_round(task: Task, defense: ConfiguredSubmission, seed: int) -> ObservedRound | None:
    """Where the training stood before the observed round; None where it has not been there."""
    if task.federation is None or task.observed_round == "first":
        return None
    side = load_task(trained_as(task))
    store = SimulationStore(side, seed, training_fingerprint(side, defense, seed))
    stored = store.observed(rounds_before(task.federation, task.observed_round))
    if stored is None:
        return None
    states = {client: store.path(name) for client, name in stored.states.items()}
    return ObservedRound(store.path(stored.weights), states)


def train_up_to_it(
    task: Task,
    defense: ConfiguredSubmission,
    seed: int,
    limits: JobLimits,
    finished: Callable[[], Iterable[Job]],
    failed: Callable[[Status, str], None],
) -> Iterable[Job]:
    """Jobs that train up to the observed round."""
    trained = trained_as(task)
    assert trained.federation is not None
    fingerprint = training_fingerprint(load_task(trained), defense, seed)
    label = f"{task.name} · training · {defense.name}"
    simulation = Simulation(trained, defense, seed, fingerprint, limits, label)
    simulation.until = rounds_before(trained.federation, task.observed_round)
    simulation.observed = simulation.until
    if simulation.store.read().round >= simulation.until:
        simulation.store.restart()  # it went past without keeping what was there
    simulation.finished, simulation.failed = finished, failed
    return simulation.start()
