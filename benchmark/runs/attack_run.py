"""Plan, cells, records: every cell ends as a record, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from benchmark.execution.engines.engine import Engine
from benchmark.execution.events import Done, Prepared, Recovered
from benchmark.execution.jobs import Job, Outcome, hand_over
from benchmark.files import one_line, write_model
from benchmark.plugins.registry import load_task
from benchmark.results.schema import Record, SnapshotResult
from benchmark.results.store import score_path
from benchmark.runs.compatibility import incompatibility_with_task, incompatibility_with_update
from benchmark.runs.federated_observed import observed_round, train_up_to_it
from benchmark.runs.federated_run import JobLimits
from benchmark.runs.plan import Cell, groups
from benchmark.runs.provenance import provenance
from benchmark.runs.threat_model import tell
from benchmark.snapshots.build import DefenseFailed, SnapshotSet
from benchmark.snapshots.store import Manifest
from benchmark.status import Status
from benchmark.suites import LoadedTask

MAX_SENTENCES = 10_000


class AttackReporter(Protocol):
    """Told of everything that a person waiting wants to know."""

    def built(self, label: str) -> None: ...

    def ended(self, cell: Cell, record: Record) -> None: ...


@dataclass(frozen=True)
class Measurements:
    """What a worker measured of a cell beside the recoveries; None where it did not get there."""

    device: str
    prepare_seconds: float | None = None
    peak_mb: float | None = None
    device_peak_mb: float | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> Measurements:
        """From the last events of each kind."""
        prepared = outcome.events(Prepared)[-1:]
        done = outcome.events(Done)[-1:]
        return cls(
            device=outcome.device,
            prepare_seconds=prepared[0].seconds if prepared else None,
            peak_mb=done[0].peak_mb if done else None,
            device_peak_mb=done[0].device_peak_mb if done else None,
        )


@dataclass
class Run:
    """One call of `leakboard run` at work."""

    engine: Engine
    reporter: AttackReporter
    time_limit: float
    memory_limit_mb: float
    device: str
    done: list[Record] = field(default_factory=list)
    build_limit: float | None = None
    """Seconds that making the snapshots of a task may take; None: as many as a cell."""

    def run(self, cells: Sequence[Cell]) -> list[Record]:
        """Run all cells that are not there yet; records are written as cells end."""
        fitting = []
        for cell in cells:
            reason = incompatibility_with_task(cell)
            if reason:
                self._write(cell, Status.UNSUPPORTED, reason)
            else:
                fitting.append(cell)
        first = (job for group in groups(fitting).values() for job in self._open(group))
        self.engine.run(first, hand_over)
        return self.done

    # --------------------------------------------------------------------------- snapshots first

    def _open(self, cells: list[Cell]) -> Iterable[Job]:
        """Jobs of cells on the same snapshots: the snapshots where missing, else the cells."""
        task, defense, seed = cells[0].task, cells[0].defense, cells[0].seed
        observed = observed_round(task, defense, seed)
        if task.observed_round != "first" and observed is None:
            return self._train_first(cells)
        snapshots = SnapshotSet(load_task(task), defense, seed, observed)
        missing = snapshots.missing()
        if not missing:
            return self._recover_jobs(snapshots, cells)
        built = partial(self._built, snapshots, missing, cells)
        limit = self.build_limit or self.time_limit
        return [snapshots.job(missing, limit, self.memory_limit_mb, built)]

    def _train_first(self, cells: list[Cell]) -> Iterable[Job]:
        """Cells on a later round of a federated training need the rounds before it."""

        def failed(status: Status, reason: str) -> None:
            for cell in cells:
                self._write(cell, status, reason)

        def finished() -> Iterable[Job]:
            if observed_round(cells[0].task, cells[0].defense, cells[0].seed) is None:
                failed(Status.UNSUPPORTED, "nothing leaves the client, so there is no later round")
                return []
            return self._open(cells)

        limits = JobLimits(self.time_limit, self.memory_limit_mb, len(self.engine.devices))
        first = cells[0]
        return train_up_to_it(first.task, first.defense, first.seed, limits, finished, failed)

    def _built(
        self, snapshots: SnapshotSet, indices: list[int], cells: list[Cell], outcome: Outcome
    ) -> list[Job]:
        """Store new snapshots and go on to the cells that attack them."""
        try:
            snapshots.store(indices, outcome)
        except DefenseFailed as failure:
            for cell in cells:
                self._write(cell, failure.status, failure.reason)
            return []
        self.reporter.built(outcome.job.label)
        return self._recover_jobs(snapshots, cells)

    # -------------------------------------------------------------------------------- then cells

    def _recover_jobs(self, snapshots: SnapshotSet, cells: list[Cell]) -> list[Job]:
        manifests = snapshots.manifests()
        jobs = []
        for cell in cells:
            reason = incompatibility_with_update(cell, manifests[0])
            if reason:
                self._write(cell, Status.UNSUPPORTED, reason, manifests)
                continue
            told = tell(cell, snapshots, manifests)
            close = partial(self._close, cell, manifests)
            limits = self.time_limit, self.memory_limit_mb
            expected = cell.expected_seconds
            jobs.append(Job(told.work, told.files, *limits, cell.label, close, expected))
        return jobs

    # ------------------------------------------------------------------------------- into records

    def _close(self, cell: Cell, manifests: list[Manifest], outcome: Outcome) -> list[Job]:
        """Turn what a worker said, however it ended, into a record."""
        side = load_task(cell.task)
        answers = {event.index: event for event in outcome.events(Recovered)}
        status, reason = _cell_verdict(outcome)
        results = [
            _result(manifest, answers.get(manifest.index), status, reason, side)
            for manifest in manifests
        ]
        if status is Status.OK:
            status, reason = _snapshots_verdict(results)
        self._write(cell, status, reason, manifests, results, Measurements.of(outcome))
        return []

    def _write(
        self,
        cell: Cell,
        status: Status,
        reason: str,
        manifests: Sequence[Manifest] = (),
        results: Sequence[SnapshotResult] = (),
        measured: Measurements | None = None,
    ) -> None:
        measured = measured or Measurements(self.device)
        record = Record(
            **cell.names(),
            attack=cell.attack.entry.name,
            attack_parameters=dict(cell.attack.parameters),
            attack_variant=cell.attack.variant,
            told=sorted(cell.told),
            baseline=cell.attack.entry.baseline,
            status=status,
            reason=reason,
            snapshots=list(results),
            prepare_seconds=measured.prepare_seconds,
            peak_mb=measured.peak_mb,
            device_peak_mb=measured.device_peak_mb,
            bytes_up=sum(s.bytes_up for s in manifests) / len(manifests) if manifests else None,
            epsilon=manifests[0].epsilon if manifests else None,
            provenance=provenance(cell, measured.device, self.engine.threads),
        )
        write_model(cell.path, record)
        score_path(cell.path).unlink(missing_ok=True)
        self.done.append(record)
        self.reporter.ended(cell, record)


def _cell_verdict(outcome: Outcome) -> tuple[Status, str]:
    """How the whole cell ended: by its own word, else by the word of whoever watched it."""
    if complaint := outcome.complaint():
        return complaint.status, complaint.reason
    if outcome.status is Status.OK and not outcome.events(Done):
        return Status.ERROR, "the process ended before it had finished"
    reason = outcome.reason
    if outcome.status is Status.ERROR and outcome.log.strip():
        reason = f"{reason}: {one_line(outcome.log.strip().splitlines()[-1], 300)}"
    return outcome.status, reason


def _snapshots_verdict(results: Sequence[SnapshotResult]) -> tuple[Status, str]:
    """How a cell ended whose process ended well: by the snapshots that did not.

    Snapshots that the attack refused count as nothing recovered and cost it no other snapshot.
    """
    failed = [r for r in results if r.status not in (Status.OK, Status.UNSUPPORTED)]
    refused = [r for r in results if r.status is Status.UNSUPPORTED]
    if failed:
        return failed[0].status, (
            f"{len(failed)} of {len(results)} snapshots failed: {failed[0].reason}"
        )
    if not refused:
        return Status.OK, ""
    status = Status.UNSUPPORTED if len(refused) == len(results) else Status.OK
    said = f"{len(refused)} of {len(results)} snapshots refused, each counts as 0"
    return status, f"{said}: {refused[0].reason}"


def _result(
    manifest: Manifest, answer: Recovered | None, status: Status, reason: str, side: LoadedTask
) -> SnapshotResult:
    """One snapshot's part of a record; what goes beyond the vocabulary or limit is `invalid`."""
    if answer is None:
        failed = status if status is not Status.OK else Status.ERROR
        return SnapshotResult(
            index=manifest.index, digest=manifest.digest, status=failed, reason=reason
        )
    if problem := _excess(answer, side):
        return SnapshotResult(
            index=manifest.index, digest=manifest.digest, status=Status.INVALID, reason=problem
        )
    return SnapshotResult(
        index=manifest.index,
        digest=manifest.digest,
        status=answer.status,
        reason=answer.reason,
        seconds=answer.seconds,
        joint=answer.joint,
        sentences=answer.sentences,
        texts=[side.decode(ids) for ids in answer.sentences],
        token_types=answer.token_types,
        note=answer.note,
        stopped_by_clock=answer.stopped_by_clock,
    )


def _excess(answer: Recovered, side: LoadedTask) -> str | None:
    """Why an answer is beyond what a snapshot can have, if it is."""
    if not side.all_in_vocabulary([*answer.sentences, answer.token_types or []]):
        return "a token id is outside the vocabulary"
    if len(answer.sentences) > MAX_SENTENCES:
        return f"returned {len(answer.sentences)} sentences, more than {MAX_SENTENCES}"
    return None
