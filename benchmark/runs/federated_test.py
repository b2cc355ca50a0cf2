"""The test of every client of a federated training, once its rounds are over."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmark.errors import InvalidUpdate
from benchmark.execution.events import ClientFailed, ClientTested, Personalized
from benchmark.execution.federated_client import state_file
from benchmark.execution.jobs import (
    ClientSettings,
    ClientTestJob,
    Job,
    Outcome,
    PersonalizeJob,
    PersonalWeights,
)
from benchmark.runs.federated_rounds import in_groups
from benchmark.runs.federated_run import Simulation
from benchmark.snapshots.build import DefenseFailed, failure
from benchmark.snapshots.validate import validate_client_update
from benchmark.status import Status

TESTED_TOGETHER = 10
"""Clients whose own models lie on disk at once while they are tested."""


class FinalTest:
    """The test of every client after the last round, a few at a time.

    As in FedeVocab's paper, a client is tested with its own model: what it has after one more local
    training. The method's code runs without the test rows, and another process, which loads no
    submission, tests what came out.
    """

    def __init__(
        self,
        simulation: Simulation,
        finished: Callable[[dict[int, dict[int, int]]], None],
        failed: Callable[[Status, str], None],
    ) -> None:
        self.simulation, self.finished, self.failed = simulation, finished, failed
        self.predicted: dict[int, dict[int, int]] = {}
        """Class by test row, by client."""
        self.problem = False

    def start(self) -> list[Job]:
        """All jobs at once; each group's test follows its own models."""
        clients = range(self.simulation.federation.clients)
        self.rows = self._rows()
        size = max(self.simulation.limits.jobs, -(-len(clients) // TESTED_TOGETHER))
        groups = in_groups(clients, size)
        self.pending = len(groups)
        return [self._personal_job(group) for group in groups]

    def _rows(self) -> list[tuple[int, ...]]:
        """Test rows of each client: the common ones and its own."""
        simulation = self.simulation
        data = simulation.side.federated_data(simulation.store.seed)
        common = range(min(simulation.federation.global_rows, len(data.test.labels)))
        return [tuple(sorted({*common, *own})) for own in data.local_tests]

    def _personal_job(self, clients: Sequence[int]) -> Job:
        simulation = self.simulation
        items, files = simulation.client_files(clients, "test")
        work = PersonalizeJob(
            client=ClientSettings.of(simulation.task),
            defense=simulation.defense.calls(),
            seed=simulation.seed,
            round=simulation.checkpoint.round - 1 if simulation.checkpoint.round else 0,
            received="received",
            clients=items,
        )
        files["received"] = simulation.store.path(simulation.checkpoint.weights)
        return simulation.job(work, files, len(clients), partial(self._personalized, clients))

    def _personalized(self, clients: Sequence[int], outcome: Outcome) -> list[Job]:
        """Check the models that clients made, and go on to test them."""
        said = {event.index: event for event in outcome.events(Personalized)}
        own, files = [], {}
        try:
            for client in clients:
                if client not in said:
                    raise self._reason(client, outcome)
                file = ""
                if said[client].differs:
                    file = f"own/{client:05d}"
                    made = outcome.made / state_file(client)
                    validate_client_update(self.simulation.side, made)
                    files[file] = made
                own.append(PersonalWeights(index=client, file=file, rows=self.rows[client]))
        except (InvalidUpdate, OSError) as problem:
            return self._fail(Status.INVALID, str(problem))
        except DefenseFailed as problem:
            return self._fail(problem.status, problem.reason)
        return [self._test_job(own, files, outcome.made)]

    def _reason(self, client: int, outcome: Outcome) -> DefenseFailed:
        for bad in outcome.events(ClientFailed):
            if bad.index == client:
                return DefenseFailed(bad.status, f"client {client} has no model: {bad.reason}")
        return failure(outcome)

    def _test_job(self, own: Sequence[PersonalWeights], files: dict[str, Path], made: Path) -> Job:
        simulation = self.simulation
        work = ClientTestJob(
            client=ClientSettings.of(simulation.task),
            received="received",
            rows="test",
            clients=tuple(own),
        )
        files["received"] = simulation.store.path(simulation.checkpoint.weights)
        files["test"] = simulation.store.path("rows/test")
        return simulation.job(work, files, len(own), partial(self._tested, own, made))

    def _tested(self, own: Sequence[PersonalWeights], made: Path, outcome: Outcome) -> list[Job]:
        """Keep the answers, remove the models."""
        shutil.rmtree(made, ignore_errors=True)
        said = {event.index: event.predicted for event in outcome.events(ClientTested)}
        if any(len(said.get(item.index, ())) != len(item.rows) for item in own):
            problem = failure(outcome)
            return self._fail(problem.status, problem.reason)
        for item in own:
            self.predicted[item.index] = dict(zip(item.rows, said[item.index], strict=True))
        self.pending -= 1
        if not self.pending and not self.problem:
            self.finished(self.predicted)
        return []

    def _fail(self, status: Status, reason: str) -> list[Job]:
        if not self.problem:
            self.failed(status, reason)
        self.problem = True
        return []
