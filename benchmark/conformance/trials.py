"""Runs a submission on a few snapshots of a small task, under observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmark.conformance.source import SourceCode
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Done, Recovered
from benchmark.execution.jobs import CheckJob, Job, Outcome, RecoverJob, UpdateJob, hand_over
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import load_task
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.snapshots.build import SnapshotSet
from benchmark.status import Status
from benchmark.suites import Suite, Task

SEED = 0
"""One of those for tuning: what is checked is never published."""
FEW = 2
"""Snapshots of a task that are tried."""


@dataclass(frozen=True)
class TrialLimits:
    """What a submission may take for a few snapshots of a small task."""

    seconds: float = 60.0
    memory_mb: float = 4096.0


@dataclass(frozen=True)
class FewSnapshots(SnapshotSet):
    """The first snapshots of a task, the very ones that a run would attack."""

    count: int = FEW

    @property
    def indices(self) -> range:
        """Numbers of these snapshots."""
        return range(min(self.count, self.side.task.snapshots))


@dataclass(frozen=True)
class TrialOutcome:
    """What came of one trial."""

    outcome: Outcome
    task: str
    setting: str
    """The submission as it was configured."""

    @property
    def answers(self) -> dict[int, Recovered]:
        """What an attack said, by snapshot."""
        return {event.index: event for event in self.outcome.events(Recovered)}

    @property
    def worked(self) -> bool:
        """Whether every snapshot was answered without failure."""
        fine = [event.status is Status.OK for event in self.answers.values()]
        return self.finished and bool(fine) and all(fine)

    @property
    def finished(self) -> bool:
        """Whether the job came to its end."""
        return bool(self.outcome.events(Done)) and self.outcome.complaint() is None

    @property
    def refusal(self) -> str:
        """Why the submission does not do this by its nature; empty where it tries."""
        reasons = [e.reason for e in self.answers.values() if e.status is Status.UNSUPPORTED]
        complaint = self.outcome.complaint()
        if complaint is not None and complaint.status is Status.UNSUPPORTED:
            reasons.append(complaint.reason)
        return reasons[0] if reasons else ""


@dataclass(frozen=True)
class TrialRunner:
    """Where submissions are tried: workers, and what they may take."""

    engine: LocalEngine
    limits: TrialLimits
    suite: Suite

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run jobs, as many at once as there are workers; outcomes in the order of the jobs."""
        found: dict[int, Outcome] = {}

        def keep(number: int, outcome: Outcome) -> list[Job]:
            found[number] = outcome
            return []

        numbered = [replace(job, finished=partial(keep, n)) for n, job in enumerate(jobs)]
        self.engine.run(numbered, hand_over)
        return [found[number] for number in range(len(jobs))]

    def snapshots(self, task: Task, defense: Entry, count: int = FEW) -> FewSnapshots:
        """Snapshots of a task under a defense, which may have to be built."""
        return FewSnapshots(load_task(task), ConfiguredSubmission(defense), SEED, count=count)


def observed(
    job: Job,
    source: SourceCode,
    jointly: bool = True,
    stir: int = 0,
    other_device: bool = False,
) -> Job:
    """The same job, under observation."""
    assert isinstance(job.work, UpdateJob | RecoverJob)
    work = CheckJob(
        work=job.work,
        sources=tuple(source.paths),
        jointly=jointly,
        stir=stir,
        other_device=other_device,
    )
    return replace(job, work=work)
