"""An attack before a few snapshots of a small task: what is tried, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.conformance.source import SourceCode
from benchmark.conformance.trial_settings import restricted
from benchmark.conformance.trials import (
    FEW,
    SEED,
    FewSnapshots,
    TrialOutcome,
    TrialRunner,
    observed,
)
from benchmark.execution.jobs import Job
from benchmark.plugins.catalog import Entry
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.runs.compatibility import incompatibility_with_update
from benchmark.runs.plan import Cell, handed_over
from benchmark.runs.threat_model import tell
from benchmark.snapshots.verify import build
from benchmark.status import Status
from benchmark.suites import Task

Answer = tuple[object, ...]


@dataclass(frozen=True)
class AttackTrial:
    """An attack at some settings before some snapshots, and in which manner it is asked."""

    task: Task
    attack: ConfiguredSubmission
    count: int = FEW
    known: frozenset[str] | None = None
    """All that the task grants, where that is less than it does."""
    backwards: bool = False
    """The last snapshot first."""
    jointly: bool = True
    stir: int = 0
    other_device: bool = False

    @property
    def granting(self) -> Task:
        """The task with what it grants in this trial."""
        return self.task if self.known is None else restricted(self.task, self.known)

    @property
    def handed(self) -> frozenset[str]:
        """Knowledge that the attack is handed."""
        return frozenset(handed_over(self.attack, self.granting))


@dataclass(frozen=True)
class AttackTrials:
    """Tries one attack on undefended updates."""

    runner: TrialRunner
    source: SourceCode
    undefended: Entry

    def build(self, tasks: Sequence[Task]) -> None:
        """Make the snapshots that are missing."""
        sets = [self.runner.snapshots(task, self.undefended) for task in tasks]
        build(self.runner.engine, sets, False, self.runner.limits.memory_mb)

    def snapshots(self, trial: AttackTrial) -> FewSnapshots:
        """The snapshots of a trial."""
        return self.runner.snapshots(trial.task, self.undefended, trial.count)

    def run(self, trials: Sequence[AttackTrial]) -> list[TrialOutcome]:
        """What came of each trial."""
        outcomes = self.runner.run([self._job(trial) for trial in trials])
        return [
            TrialOutcome(outcome, trial.task.name, trial.attack.name)
            for outcome, trial in zip(outcomes, trials, strict=True)
        ]

    def incompatibility(self, trial: AttackTrial) -> str | None:
        """Why the model of a task is nothing for the attack, as a run would tell."""
        return incompatibility_with_update(self._cell(trial), self.snapshots(trial).manifests()[0])

    def _cell(self, trial: AttackTrial) -> Cell:
        return Cell(
            suite=self.runner.suite.name,
            task=trial.granting,
            defense=ConfiguredSubmission(self.undefended),
            seed=SEED,
            path=Path(),
            fingerprint="",
            cached=False,
            expected_seconds=0.0,
            attack=trial.attack,
        )

    def _job(self, trial: AttackTrial) -> Job:
        snapshots, limits = self.snapshots(trial), self.runner.limits
        told = tell(self._cell(trial), snapshots, snapshots.manifests())
        facts = told.work.snapshots[:: -1 if trial.backwards else 1]
        work = told.work.model_copy(update={"snapshots": facts})
        label = f"{trial.task.name} · check"
        job = Job(work, told.files, limits.seconds, limits.memory_mb, label)
        return observed(job, self.source, trial.jointly, trial.stir, trial.other_device)


def answers(tried: TrialOutcome) -> dict[int, Answer]:
    """What was answered, snapshot by snapshot, as far as two answers have to be the same."""
    return {
        index: (event.status, event.sentences, event.token_types)
        for index, event in tried.answers.items()
    }


def cut_short(tried: TrialOutcome) -> bool:
    """Whether time or memory has cut an answer, so that another may differ."""
    ended = tried.outcome.status in (Status.TIMEOUT, Status.OUT_OF_MEMORY)
    return ended or any(event.stopped_by_clock for event in tried.answers.values())
