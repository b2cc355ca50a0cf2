"""What a defense does: on a batch of each kind of task, again in another order, and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmark.conformance.behavior import METHODS, behavior, device_problems, place_of
from benchmark.conformance.problems import Problem
from benchmark.conformance.target import Target
from benchmark.conformance.trial_settings import small_tasks, with_little_effort
from benchmark.conformance.trials import (
    FEW,
    SEED,
    FewSnapshots,
    TrialOutcome,
    TrialRunner,
    observed,
)
from benchmark.execution.client import NOTHING_SENT
from benchmark.execution.events import Noticed
from benchmark.execution.jobs import Job
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import load_task
from benchmark.snapshots.build import DefenseFailed
from benchmark.snapshots.sketch import Comparison, compare, sketch_all
from benchmark.snapshots.validate import CheckedUpdate
from benchmark.snapshots.verify import build
from benchmark.status import Status
from benchmark.suites import NO_DEFENSE, Task

Updates = dict[int, CheckedUpdate]


@dataclass(frozen=True)
class DefenseTrial:
    """A defense's client on some batches of a task, and in which manner it is asked."""

    task: Task
    count: int = FEW
    backwards: bool = False
    other_device: bool = False


Tried = tuple[DefenseTrial, TrialOutcome]


class DefenseCheck:
    """One defense in front of the conformance suite."""

    def __init__(self, runner: TrialRunner, target: Target, undefended: Entry) -> None:
        self.runner, self.entry, self.source = runner, target.entry, target.source
        self.undefended = undefended
        self.configured = with_little_effort(self.entry)

    def problems(self) -> Iterator[Problem]:
        """Everything that running it shows."""
        tried = self._run([DefenseTrial(task) for task in small_tasks(self.runner.suite)])
        sent: dict[Task, Updates] = {}
        for trial, outcome in tried:
            yield from behavior(outcome, self.source, self.runner.limits)
            try:
                sent[trial.task] = self._updates(trial, outcome)
            except DefenseFailed as failure:
                yield from self._failed(trial, outcome, failure)
        yield from self._objectives(tried, sent)
        yield from self._repeated(sent)
        elsewhere = [task for task in sent if task.federation is None]
        trials = [DefenseTrial(task, count=1, other_device=True) for task in elsewhere]
        for _, outcome in self._run(trials):
            yield from device_problems(outcome, self.source)
        yield from self._worth(sent)

    # ---------------------------------------------------------------------------------- running

    def _run(self, trials: Sequence[DefenseTrial]) -> list[Tried]:
        outcomes = self.runner.run([self._job(trial) for trial in trials])
        for trial, outcome in zip(trials, outcomes, strict=True):
            self._set(trial).discard_staging(outcome)
        return [
            (trial, TrialOutcome(outcome, trial.task.name, self.configured.name))
            for trial, outcome in zip(trials, outcomes, strict=True)
        ]

    def _set(self, trial: DefenseTrial) -> FewSnapshots:
        return FewSnapshots(load_task(trial.task), self.configured, SEED, count=trial.count)

    def _job(self, trial: DefenseTrial) -> Job:
        snapshots, limits = self._set(trial), self.runner.limits
        indices = list(snapshots.indices)[:: -1 if trial.backwards else 1]
        job = snapshots.job(indices, limits.seconds, limits.memory_mb, lambda outcome: ())
        return observed(job, self.source, other_device=trial.other_device)

    def _updates(self, trial: DefenseTrial, tried: TrialOutcome) -> Updates:
        """What was sent, checked by the harness; raises `DefenseFailed` where something is not."""
        snapshots = self._set(trial)
        return dict(snapshots.updates(list(snapshots.indices), tried.outcome))

    # ----------------------------------------------------------------------------- what it shows

    def _failed(
        self, trial: DefenseTrial, tried: TrialOutcome, failure: DefenseFailed
    ) -> Iterator[Problem]:
        """An exception with its line, or an update that is none."""
        raised = [e for e in tried.outcome.events(Noticed) if e.notice == "exception"]
        for event in raised:
            words = f"{event.what} (on {trial.task.name}); raise Unsupported where it cannot do it"
            yield Problem("runs", *place_of(event, self.source), words)
        reason = failure.reason.removeprefix("the defense failed: ")
        if failure.status is Status.INVALID:
            words = f"{reason} (on {trial.task.name}); send the model's own tensors, all finite"
            yield self.source.problem("contract", words, *METHODS)
        elif failure.status is Status.ERROR and not raised:
            words = f"it failed on {trial.task.name}: {reason}"
            yield self.source.problem("runs", words, *METHODS)

    def _objectives(self, tried: Sequence[Tried], sent: dict[Task, Updates]) -> Iterator[Problem]:
        """A defense is defined for every objective; one that it refuses is worth a warning.

        A method whose clients send nothing is none: it has trainings, but no snapshots.
        """
        worked = {task.objective for task in sent}
        for trial, outcome in tried:
            if outcome.refusal == NOTHING_SENT:
                continue
            if outcome.refusal and trial.task.objective not in worked:
                words = f"it does nothing for {trial.task.objective}: {outcome.refusal}"
                warning = bool(worked)
                yield self.source.problem("objectives", words, *METHODS, warning=warning)

    def _repeated(self, sent: dict[Task, Updates]) -> Iterator[Problem]:
        """The same batches and seeds once more, the last batch first."""
        for trial, outcome in self._run([DefenseTrial(task, backwards=True) for task in sent]):
            if self._differs(sent[trial.task], trial, outcome):
                yield self._difference(trial, sent[trial.task])
                return

    def _differs(self, before: Updates, trial: DefenseTrial, tried: TrialOutcome) -> bool:
        try:
            again = self._updates(trial, tried)
        except DefenseFailed:
            return True
        return any(_bytes(before[index]) != _bytes(again[index]) for index in before)

    def _difference(self, trial: DefenseTrial, before: Updates) -> Problem:
        """What it is that two updates differ by: chance or the order."""
        ((same, outcome),) = self._run([replace(trial, backwards=False)])
        where = f"on {trial.task.name}"
        if self._differs(before, same, outcome):
            words = f"the same seed gives another update {where}; draw from client.generator alone"
            return self.source.problem("same seed", words, *METHODS)
        words = (
            f"an update depends on the batches before it {where}; keep what lasts in client.state, "
            "not in the defense"
        )
        return self.source.problem("order", words, *METHODS)

    def _worth(self, sent: dict[Task, Updates]) -> Iterator[Problem]:
        """It changes something that leaves the client."""
        if not sent or self.entry.name == NO_DEFENSE:
            return
        task, updates = next(iter(sent.items()))
        plain = self.runner.snapshots(task, self.undefended)
        build(self.runner.engine, [plain], False, self.runner.limits.memory_mb)
        same = [
            compare(manifest.sketch, sketch_all(updates[manifest.index].tensors))
            for manifest in plain.manifests()
        ]
        if all(comparison is Comparison.IDENTICAL for comparison in same):
            words = f"it sends what an undefended client sends (on {task.name})"
            yield self.source.problem("baselines", words, *METHODS, warning=True)


def _bytes(update: CheckedUpdate) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in update.tensors.items()}
