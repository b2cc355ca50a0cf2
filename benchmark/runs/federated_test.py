"""The test of every client of a federated training, once its rounds are over."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from benchmark.suites import Task

TESTED_TOGETHER = 25
"""Clients whose own models lie on disk at once while they are tested."""


Predicted = dict[int, dict[int, int]]
"""Class by test row, by client."""


def adapting_only(task: Task) -> Task:
    """The task with clients that train no shared parameters: there is no round to come."""
    assert task.federation is not None
    return replace(task, federation=replace(task.federation, epochs=0))


class FinalTest:
    """The test of every client after the last round, a few at a time.

    A client is tested as it would use the model: it receives the last parameters, adds what it has
    kept, and adapts if the method does. It does not train once more, as FedeVocab's clients do not
    before their test; otherwise every method would be tested with a personal model. The method's
    code runs without the test rows, and another process, which loads no submission, tests what came
    out. A client that fails to adapt is tested with what it had, and is counted.
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
        self.server = simulation.federation.clients
        """Stands, behind the last client, for all that have no model of their own."""

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
        self.every_row = range(len(data.test.labels))
        common = self.every_row[: simulation.federation.global_rows]
        return [tuple(sorted({*common, *own})) for own in data.local_tests]

    def _personal_job(self, clients: Sequence[int]) -> Job:
        simulation = self.simulation
        items, files = simulation.client_files(clients, "test")
        work = PersonalizeJob(
            client=ClientSettings.of(adapting_only(simulation.task)),
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
        lost = [c for c in clients if c not in said and c not in reasons and len(clients) > 1]
        paths = {
            client: self._model(client, said.get(client), reasons.get(client), outcome)
            for client in clients
            if client not in lost
        }
        again = [self._personal_job([client]) for client in lost]
        return [*again, self._test_job(paths, outcome.made)] if paths else again

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

    def _test_job(self, paths: Mapping[int, Path | None], made: Path) -> Job:
        """Clients without a model of their own share one test of the server's."""
        simulation = self.simulation
        own = {client: path for client, path in paths.items() if path is not None}
        items = [PersonalWeights(index=c, file=f"own/{c:05d}", rows=self.rows[c]) for c in own]
        if len(own) < len(paths):
            items.append(PersonalWeights(index=self.server))
        work = ClientTestJob(
            client=ClientSettings.of(simulation.task),
            received="received",
            rows="test",
            clients=tuple(items),
        )
        files = {f"own/{client:05d}": path for client, path in own.items()}
        files["received"] = simulation.store.path(simulation.checkpoint.weights)
        files["test"] = simulation.store.path("rows/test")
        done = partial(self._tested, {c: c if c in own else self.server for c in paths}, made)
        return simulation.job(work, files, len(items), done)

    def _tested(self, models: Mapping[int, int], made: Path, outcome: Outcome) -> list[Job]:
        """Keep the answers, remove the models; each client is given with whose model it has."""
        shutil.rmtree(made, ignore_errors=True)
        said = {event.index: event.predicted for event in outcome.events(ClientTested)}
        for client, model in models.items():
            rows = self.every_row if model == self.server else self.rows[client]
            if len(said.get(model, ())) != len(rows):
                self._fail(failure(outcome))
                return []
            found = dict(zip(rows, said[model], strict=True))
            self.predicted[client] = {row: found[row] for row in self.rows[client]}
        if len(self.predicted) == self.simulation.federation.clients:
            self._finish()
        return []

    def _finish(self) -> None:
        problems = list(self.problems.values())
        if len(problems) == self.simulation.federation.clients:
            reason = f"all clients failed to adapt before their test: {problems[0].reason}"
            self._fail(DefenseFailed(problems[0].status, reason))
        else:
            self.finished(self.predicted, Counter(problem.reason for problem in problems))

    def _fail(self, problem: DefenseFailed) -> None:
        if not self.broken:
            self.failed(problem.status, problem.reason)
        self.broken = True
