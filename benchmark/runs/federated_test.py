"""The test of every client of a federated training, once its rounds are over."""

from __future__ import annotations

import shutil
from collections import Counter
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

TESTED_TOGETHER = 25
"""Clients whose own models lie on disk at once while they are tested."""


Predicted = dict[int, dict[int, int]]
"""Class by test row, by client."""


class FinalTest:
    """The test of every client after the last round, a few at a time.

    As by FedeVocab's authors, a client is tested with the server's parameters and with what it
    keeps for itself after taking part once more. The method's code runs without the test rows, and
    another process, which loads no submission, tests what came out. A client that fails then is
    tested with what it had before, and is counted.
    """

    def __init__(
        self,
        simulation: Simulation,
        finished: Callable[[Predicted, dict[str, int]], None],
        failed: Callable[[Status, str], None],
    ) -> None:
        self.simulation, self.finished, self.failed = simulation, finished, failed
        self.predicted: Predicted = {}
        self.problems: dict[int, DefenseFailed] = {}
        """Why a client has no model of its own, by client."""
        self.broken = False

    def start(self) -> list[Job]:
        """All jobs at once; each group's test follows its own models."""
        clients = range(self.simulation.federation.clients)
        self.rows = self._rows()
        size = max(self.simulation.limits.jobs, -(-len(clients) // TESTED_TOGETHER))
        return [self._personal_job(group) for group in in_groups(clients, size)]

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
        """Test the models that clients made; those of a lost job are tried once more, alone."""
        said = {event.index: event for event in outcome.events(Personalized)}
        reasons = {event.index: event for event in outcome.events(ClientFailed)}
        own, files, lost = [], {}, []
        for client in clients:
            if client not in said and client not in reasons and len(clients) > 1:
                lost.append(client)
                continue
            path = self._model(client, said.get(client), reasons.get(client), outcome)
            file = f"own/{client:05d}" if path else ""
            if path:
                files[file] = path
            own.append(PersonalWeights(index=client, file=file, rows=self.rows[client]))
        again = [self._personal_job([client]) for client in lost]
        return [*again, self._test_job(own, files, outcome.made)] if own else again

    def _model(
        self, client: int, said: Personalized | None, bad: ClientFailed | None, outcome: Outcome
    ) -> Path | None:
        """A client's own model, or what it had before; None where that is the server's."""
        made = outcome.made / state_file(client)
        try:
            if bad is not None:
                raise DefenseFailed(bad.status, bad.reason)
            if said is None:
                raise failure(outcome)
            if said.differs:
                validate_client_update(self.simulation.side, made)
            return made if said.differs else None
        except (InvalidUpdate, OSError) as problem:
            self.problems[client] = DefenseFailed(Status.INVALID, str(problem))
        except DefenseFailed as problem:
            self.problems[client] = problem
        kept = self.simulation.checkpoint.states.get(client)
        return self.simulation.store.path(kept) if kept else None

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
            self._fail(failure(outcome))
        else:
            for item in own:
                self.predicted[item.index] = dict(zip(item.rows, said[item.index], strict=True))
        if len(self.predicted) == self.simulation.federation.clients:
            self._finish()
        return []

    def _finish(self) -> None:
        problems = list(self.problems.values())
        if len(problems) == self.simulation.federation.clients:
            reason = f"all clients failed the training before their test: {problems[0].reason}"
            self._fail(DefenseFailed(problems[0].status, reason))
        else:
            self.finished(self.predicted, Counter(problem.reason for problem in problems))

    def _fail(self, problem: DefenseFailed) -> None:
        if not self.broken:
            self.failed(problem.status, problem.reason)
        self.broken = True
