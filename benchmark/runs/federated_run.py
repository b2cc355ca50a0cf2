"""The rounds of a federated training as a chain of jobs.

The clients of a round are spread over as many jobs as may run at once. Those of a job that was lost
are tried once more, each in a job of its own, so one bad client takes no other with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.errors import InvalidUpdate
from benchmark.execution.events import (
    ClientFailed,
    ClientTested,
    ClientTrained,
    Progress,
)
from benchmark.execution.federated_client import state_file, update_file
from benchmark.execution.jobs import (
    ClientFile,
    ClientSettings,
    ClientTestJob,
    Job,
    Outcome,
    PersonalWeights,
    RoundJob,
    Work,
)
from benchmark.execution.seeds import training_seed
from benchmark.plugins.registry import load_task
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.schema import RoundResult
from benchmark.runs.federated_rounds import (
    aggregate,
    client_round_seed,
    drops_out,
    in_groups,
    sampled_clients,
)
from benchmark.runs.federated_store import Checkpoint, SimulationStore, check_state, weights_name
from benchmark.snapshots.build import failure
from benchmark.snapshots.salt import salt
from benchmark.snapshots.validate import bytes_on_the_wire, validate_client_update
from benchmark.status import Status
from benchmark.suites import Federation, Task

if TYPE_CHECKING:
    import numpy as np

    Tensors = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class JobLimits:
    """What a job may take, and how many of them may run at once."""

    seconds: float
    """Of one client."""
    memory_mb: float
    jobs: int


@dataclass
class RoundAnswers:
    """What has come back from the clients of the current round, by client."""

    updates: dict[int, Tensors] = field(default_factory=dict)
    states: dict[int, Path] = field(default_factory=dict)
    said: dict[int, ClientTrained] = field(default_factory=dict)
    failed: dict[int, tuple[Status, str]] = field(default_factory=dict)

    def missing(self, clients: Iterable[int]) -> list[int]:
        """Clients that have neither answered nor failed."""
        return [c for c in clients if c not in self.said and c not in self.failed]


class Simulation:
    """The rounds of one federated training."""

    def __init__(
        self,
        task: Task,
        defense: ConfiguredSubmission,
        seed: int,
        fingerprint: str,
        limits: JobLimits,
        label: str,
    ) -> None:
        assert task.federation is not None
        self.task, self.defense, self.limits, self.label = task, defense, limits, label
        self.federation: Federation = task.federation
        self.side = load_task(task)
        self.store = SimulationStore(self.side, seed, fingerprint)
        self.seed = training_seed(salt(self.side), task.name, seed)
        self.progress: Callable[[Job, Progress], None] = lambda job, event: None
        self.finished: Callable[[], Iterable[Job]] = lambda: ()
        """Asked for more jobs once all rounds are over."""
        self.failed: Callable[[Status, str], None] = lambda status, reason: None
        """Told why there is no training."""
        self.until = self.federation.rounds
        self.observed: int | None = None
        """A round after which everything is kept, because snapshots are taken then."""

    def start(self) -> Iterable[Job]:
        """The jobs of the first round that is not complete."""
        self.store.lay_out()
        self.checkpoint = self.store.read()
        return self._next()

    def _next(self) -> Iterable[Job]:
        """The jobs of the next round, or of whatever follows the last."""
        while self.checkpoint.round < self.until and self.checkpoint.shares:
            number = self.checkpoint.round
            self.asked = sampled_clients(self.federation, self.seed, number)
            rate = self.federation, self.seed, number
            self.taking_part = [c for c in self.asked if not drops_out(*rate, c)]
            self.answers = RoundAnswers()
            if self.taking_part:
                groups = in_groups(self.taking_part, self.limits.jobs)
                return self._round_jobs(groups, retried=False)
            self._commit(self._advanced({}))
        return self.finished()

    # --------------------------------------------------------------------------------- one round

    def _round_jobs(self, groups: Sequence[Sequence[int]], retried: bool) -> list[Job]:
        self.pending = len(groups)
        return [self._round_job(group, retried) for group in groups]

    def _round_job(self, clients: Sequence[int], retried: bool) -> Job:
        number = self.checkpoint.round
        items, files = self.client_files(clients, number)
        work = RoundJob(
            client=ClientSettings.of(self.task),
            defense=self.defense.calls(),
            seed=self.seed,
            round=number,
            received="received",
            clients=items,
        )
        files["received"] = self.store.path(self.checkpoint.weights)
        done = partial(self._answered, list(clients), retried)
        return self.job(work, files, len(clients), done)

    def client_files(
        self, clients: Iterable[int], number: int | str
    ) -> tuple[tuple[ClientFile, ...], dict[str, Path]]:
        """Clients as a job is told of them, and their files."""
        items, files = [], {}
        for client in clients:
            rows, state = f"rows/{client:05d}", f"states/{client:05d}"
            files[rows] = self.store.rows(client)
            if client in self.checkpoint.states:
                files[state] = self.store.path(self.checkpoint.states[client])
            items.append(
                ClientFile(
                    index=client,
                    seed=client_round_seed(self.seed, number, client),
                    rows=rows,
                    state=state if state in files else "",
                )
            )
        return tuple(items), files

    def job(
        self,
        work: Work,
        files: dict[str, Path],
        clients: int,
        done: Callable[[Outcome], Iterable[Job]],
    ) -> Job:
        """A job on the task's model, with time for so many clients."""
        files["model"] = self.side.model_directory
        seconds = self.limits.seconds * max(1, clients)
        return Job(work, files, seconds, self.limits.memory_mb, self.label, done)

    def _answered(self, clients: list[int], retried: bool, outcome: Outcome) -> Iterable[Job]:
        """Take in what a job's clients sent; once all jobs have ended, close the round."""
        self._collect(clients, outcome)
        shutil.rmtree(outcome.made, ignore_errors=True)
        missing = self.answers.missing(clients)
        if retried or len(clients) == 1:
            problem = failure(outcome)
            for client in missing:
                self.answers.failed[client] = (problem.status, problem.reason)
        self.pending -= 1
        if self.pending:
            return []
        lost = self.answers.missing(self.taking_part)
        if lost:
            return self._round_jobs([[client] for client in lost], retried=True)
        return self._close_round(outcome.job)

    def _collect(self, clients: Sequence[int], outcome: Outcome) -> None:
        for bad in outcome.events(ClientFailed):
            if bad.index in clients:
                self.answers.failed[bad.index] = (bad.status, bad.reason)
        for said in outcome.events(ClientTrained):
            if said.index not in clients or said.index in self.answers.failed:
                continue
            try:
                self._take_in(said, outcome.made)
            except (InvalidUpdate, OSError) as problem:
                self.answers.failed[said.index] = (Status.INVALID, str(problem))

    def _take_in(self, said: ClientTrained, made: Path) -> None:
        """Read and check a client's files; nothing of a client counts unless all of it is right."""
        update: Tensors = {}
        if said.shares:
            update = validate_client_update(self.side, made / update_file(said.index))
        if said.keeps:
            check_state(self.side, made / state_file(said.index))
            kept = self.store.path(f".made-{said.index:05d}")
            shutil.move(made / state_file(said.index), kept)
            self.answers.states[said.index] = kept
        self.answers.updates[said.index] = update
        self.answers.said[said.index] = said

    def _close_round(self, job: Job) -> Iterable[Job]:
        """Aggregate and commit; where the accuracy is due, look at it first."""
        answers = self.answers
        if not answers.said:
            status, reason = next(iter(answers.failed.values()))
            number = self.checkpoint.round + 1
            self.failed(status, f"all clients of round {number} failed: {reason}")
            return []
        ahead = self._advanced(self._consistent(answers.updates))
        if ahead.round in self.federation.looks and ahead.shares:
            return [self._check_job(ahead)]
        self._commit(ahead)
        self._report(job)
        return self._next()

    def _consistent(self, updates: dict[int, Tensors]) -> dict[int, Tensors]:
        """Updates of the parameters that most clients share; others are left out."""
        names = [frozenset(update) for _, update in sorted(updates.items())]
        usual = max(names, key=names.count) if names else frozenset[str]()
        for client in [c for c, update in updates.items() if frozenset(update) != usual]:
            reason = "it shares other parameters than the other clients"
            self.answers.failed[client] = (Status.INVALID, reason)
            for kept in (updates, self.answers.said, self.answers.states):
                kept.pop(client, None)
        return updates

    def _advanced(self, updates: dict[int, Tensors]) -> Checkpoint:
        """The checkpoint after this round; its files are written, but it does not count yet."""
        before, number = self.checkpoint, self.checkpoint.round + 1
        said = list(self.answers.said.values())
        shares = not said or any(event.shares for event in said)
        failures = dict(before.failures)
        for _, reason in self.answers.failed.values():
            failures[reason] = failures.get(reason, 0) + 1
        changes: dict[str, object] = {
            "round": number,
            "shares": shares,
            "history": [*before.history, self._result(number, updates)] if shares else [],
            "failures": failures,
            "seconds": before.seconds + sum(event.seconds for event in said),
            "updates": before.updates + len(said),
            "epsilon": said[-1].epsilon if said else before.epsilon,
            "peak_mb": max([before.peak_mb, *(event.peak_mb for event in said)]),
        }
        if shares and updates:
            weighted = [(self._row_count(c), update) for c, update in sorted(updates.items())]
            moved = aggregate(self.store.weights(before), weighted)
            changes["weights"] = self.store.write_weights(weights_name(number), moved)
            changes["states"] = before.states | self._kept(number)
        return before.model_copy(update=changes)

    def _kept(self, number: int) -> dict[int, str]:
        states = sorted(self.answers.states.items())
        return {client: self.store.keep_state(client, number, path) for client, path in states}

    def _row_count(self, client: int) -> int:
        from safetensors import safe_open

        with safe_open(self.store.rows(client), framework="numpy") as rows:
            return int(rows.get_slice("labels").get_shape()[0])

    def _result(self, number: int, updates: dict[int, Tensors]) -> RoundResult:
        """Traffic counted from the tensors that went either way."""
        shared = next(iter(updates.values()), {})
        down = sum(tensor.nbytes for tensor in shared.values())
        up = sum(bytes_on_the_wire(t) for update in updates.values() for t in update.values())
        return RoundResult(
            round=number,
            answered=len(updates),
            dropped=len(self.asked) - len(self.taking_part),
            failed=len(self.answers.failed),
            bytes_up=float(up),
            bytes_down=float(down * len(self.asked)),
        )

    # --------------------------------------------------------------------- accuracy on the way

    def _check_job(self, ahead: Checkpoint) -> Job:
        """Test this round's clients on the validation rows, with what they keep."""
        clients = [c for c in sorted(self.answers.said) if c in ahead.states]
        files = {f"own/{c:05d}": self.store.path(ahead.states[c]) for c in clients}
        own = [PersonalWeights(index=c, file=f"own/{c:05d}") for c in clients]
        work = ClientTestJob(
            client=ClientSettings.of(self.task),
            received="received",
            rows="validation",
            clients=tuple(own or [PersonalWeights(index=0)]),
        )
        files["received"] = self.store.path(ahead.weights)
        files["validation"] = self.store.path("rows/validation")
        return self.job(work, files, len(own), partial(self._checked, ahead))

    def _checked(self, ahead: Checkpoint, outcome: Outcome) -> Iterable[Job]:
        labels = self._labels("rows/validation")
        found = [share_of_hits(e.predicted, labels) for e in outcome.events(ClientTested)]
        accuracy = sum(found) / len(found) if found else None
        last = ahead.history[-1].model_copy(update={"accuracy": accuracy})
        ahead = ahead.model_copy(update={"history": [*ahead.history[:-1], last]})
        self._commit(ahead)
        self._report(outcome.job)
        return self._next()

    def _report(self, job: Job) -> None:
        """Tell the round, the last accuracy that was looked at, and the time left."""
        done = self.checkpoint
        seen = [result.accuracy for result in done.history if result.accuracy is not None]
        each = done.seconds / done.round / self.limits.jobs
        event = Progress(
            index=0, step=done.round, steps=self.until, loss=None,
            accuracy=seen[-1] if seen else None, seconds_left=each * (self.until - done.round),
        )  # fmt: skip
        self.progress(job, event)

    def _labels(self, name: str) -> list[int]:
        from safetensors.numpy import load_file

        labels: list[int] = load_file(self.store.path(name))["labels"].tolist()
        return labels

    def _commit(self, ahead: Checkpoint) -> None:
        self.store.commit(ahead, ahead.round == self.observed)
        self.checkpoint = ahead


def share_of_hits(predicted: Sequence[int], labels: Sequence[int]) -> float:
    """Accuracy."""
    return sum(p == t for p, t in zip(predicted, labels, strict=True)) / len(labels)
