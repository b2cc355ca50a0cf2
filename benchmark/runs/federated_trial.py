"""One federated training from its first round to its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.execution.engines.engine import Engine
from benchmark.execution.jobs import Job
from benchmark.metrics.utility import global_accuracy, local_accuracy
from benchmark.results.schema import FederatedResult
from benchmark.runs.federated_run import JobLimits, Simulation
from benchmark.runs.federated_store import Checkpoint
from benchmark.runs.federated_test import FinalTest, Predicted
from benchmark.runs.utility_plan import Trial
from benchmark.status import Status

Write = Callable[[Trial, Status, str, dict[str, float], Mapping[str, object]], None]


@dataclass(frozen=True)
class FederatedTrial:
    """Rounds, the test of all clients, and the record that is written of them."""

    trial: Trial
    engine: Engine
    time_limit: float
    memory_limit_mb: float
    write: Write

    def start(self) -> Iterable[Job]:
        """The jobs of the first round that is not complete."""
        limits = JobLimits(self.time_limit, self.memory_limit_mb, len(self.engine.devices))
        trial = self.trial
        simulation = Simulation(
            trial.task, trial.defense, trial.seed, trial.fingerprint, limits, trial.label
        )

        def failed(status: Status, reason: str) -> None:
            self.write(trial, status, reason, {}, _measured(simulation.checkpoint))

        def tested(predicted: Predicted, failures: Mapping[str, int]) -> None:
            simulation.checkpoint = with_failures(simulation.checkpoint, failures)
            result, metrics = self._scored(simulation, predicted)
            measured = _measured(simulation.checkpoint) | {"federated": result}
            self.write(trial, Status.OK, "", metrics, measured)
            simulation.store.remove()

        simulation.progress = self.engine.progress
        simulation.failed = failed
        simulation.finished = FinalTest(simulation, tested, failed).start
        return simulation.start()

    def _scored(
        self, simulation: Simulation, predicted: Predicted
    ) -> tuple[FederatedResult, dict[str, float]]:
        """Every client on the common test rows and on its own."""
        data = simulation.side.federated_data(self.trial.seed)
        labels = data.test.labels.tolist()
        common = range(simulation.federation.global_rows)[: len(labels)]
        everywhere, at_home = [], []
        for client, own in enumerate(data.local_tests):
            hits = {row: label == labels[row] for row, label in predicted[client].items()}
            everywhere.append(sum(hits[row] for row in common) / len(common))
            at_home.append(sum(hits[row] for row in own) / len(own) if own else None)
        found = {
            "global_accuracies": everywhere,
            "local_accuracies": at_home,
            "label_counts": label_counts([rows.labels.tolist() for rows in data.clients]),
        }
        result = _result(simulation.checkpoint).model_copy(update=found)
        return result, {
            "accuracy_global": global_accuracy(everywhere, len(common)),
            "accuracy_local": local_accuracy(at_home),
        }


def with_failures(checkpoint: Checkpoint, more: Mapping[str, int]) -> Checkpoint:
    """The checkpoint with clients counted that failed after the last round."""
    failures = Counter(checkpoint.failures) + Counter(more)
    return checkpoint.model_copy(update={"failures": dict(failures)})


def label_counts(labels: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows of each client by label; all clients have a column for every label."""
    kinds = 1 + max((label for own in labels for label in own), default=-1)
    return [[own.count(kind) for kind in range(kinds)] for own in labels]


def _measured(checkpoint: Checkpoint) -> dict[str, object]:
    """What a record says of the rounds, as far as they went."""
    asked = sum(r.answered for r in checkpoint.history)
    up = sum(r.bytes_up for r in checkpoint.history)
    return {
        "rounds": len(checkpoint.history),
        "step_seconds": checkpoint.seconds / max(1, checkpoint.updates),
        "bytes_up": up / asked if asked else 0.0,
        "epsilon": checkpoint.epsilon,
        "peak_mb": checkpoint.peak_mb,
        "federated": _result(checkpoint),
    }


def _result(checkpoint: Checkpoint) -> FederatedResult:
    history = checkpoint.history
    asked = sum(r.answered + r.dropped + r.failed for r in history)
    return FederatedResult(
        rounds=history,
        bytes_down=sum(r.bytes_down for r in history) / asked if asked else 0.0,
        failures=checkpoint.failures,
    )
