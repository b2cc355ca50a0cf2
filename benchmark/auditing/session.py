"""An audit at work: cells in waves within a budget of time, and a report that grows with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmark.auditing.conditions import Costs, Key, conditions, key_of
from benchmark.auditing.findings import CellFinding, judge
from benchmark.auditing.plan import AuditPlan
from benchmark.auditing.report import Report, Setup, mean
from benchmark.auditing.verdict import verdict
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.registry import load_task
from benchmark.results.schema import Record, UtilityRecord
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell, groups
from benchmark.runs.utility_plan import Trial
from benchmark.runs.utility_run import UtilityRun
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.store import read_manifest
from benchmark.spec import Truth
from benchmark.status import Status
from benchmark.suites import Task

LEAST_SECONDS = 8.0
"""With less time left nothing more is begun."""
SHARE = 0.5
"""Of the time left that a wave may take while others wait."""
KEPT_BYTES = 8 << 30
"""Of updates that are kept for attacks to come; beyond that they are made again."""
TIME_IS_UP = "the time was up"


@dataclass
class AuditSession:
    """Runs a plan; also the reporter of the runs that it starts."""

    plan: AuditPlan
    engine: LocalEngine
    setup: Setup
    memory_limit_mb: float
    changed: Callable[[Report], None]
    """Told of the report whenever an attack has ended, once the strongest has."""
    knows_text: bool = True
    findings: list[CellFinding] = field(default_factory=list)
    costs: dict[Key, Costs] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.order = list(dict.fromkeys(key_of(cell) for cell in self.plan.todo))
        self.strongest = self.plan.todo[0]
        """Without it, a verdict would be too good to be true."""
        self.stored: list[tuple[SnapshotSet, float]] = []
        """Snapshots on disk, and their bytes."""
        self.truths: dict[Task, list[Truth]] = {}

    def run(self) -> Report:
        """Wave after wave until everything is done or the time is up."""
        while self.plan.todo and self._left() > LEAST_SECONDS:
            self._run_wave(self.plan.take(2 * len(self.engine.devices), self._solved()))
            if {key_of(finding.cell) for finding in self.findings} >= set(self.order):
                self._train()
        self._train()
        self.plan.give_up(TIME_IS_UP)
        return self.report()

    def report(self) -> Report:
        """What is known by now."""
        found = conditions(self.findings, self.order, self.costs)
        took = round(time.monotonic() - self.started, 1)
        whole = not self.plan.todo and not self.plan.not_tried
        return Report(
            verdict=verdict(found),
            setup=self.setup.model_copy(update={"took_seconds": took, "whole": whole}),
            conditions=found,
            attacks=[finding.attack for finding in self.findings],
            not_tried=self.plan.not_tried,
        )

    def _left(self) -> float:
        return self.setup.budget_seconds - (time.monotonic() - self.started)

    def _solved(self) -> set[Key]:
        """Conditions in which every sentence has been read back exactly."""
        known = conditions(self.findings, self.order, self.costs)
        whole = [each for each in known if each.sentences and each.exact == len(each.sentences)]
        return {(each.defense, each.batch_size) for each in whole}

    # -------------------------------------------------------------------------------- attacks

    def _run_wave(self, cells: Sequence[Cell]) -> None:
        """Cells side by side, each with its share of the time that is left."""
        limit = self._share(len(cells))
        build = round(max(limit, SHARE * self._left()), 1)
        run = Run(
            engine=self.engine,
            reporter=self,
            time_limit=limit,
            memory_limit_mb=self.memory_limit_mb,
            device=self.engine.devices[0],
            build_limit=build,
        )
        run.run(cells)
        for group in groups(cells).values():
            self._note_costs(SnapshotSet(load_task(group[0].task), group[0].defense, group[0].seed))
        self._require_an_update()
        self._make_space()

    def _share(self, jobs: int) -> float:
        """Seconds for each of so many jobs, some of which run after others."""
        rounds = -(-jobs // len(self.engine.devices))
        share = SHARE if self.plan.todo else 1.0
        return round(max(LEAST_SECONDS / 2, share * self._left() / rounds), 1)

    def built(self, label: str) -> None:
        """Snapshots were made."""

    def ended(self, cell: Cell, record: Record) -> None:
        """A cell has its record: judge it."""
        side = load_task(cell.task)
        self.findings.append(judge(cell, record, side, self._truths(cell)))
        if any(finding.cell == self.strongest for finding in self.findings):
            self.changed(self.report())

    def _truths(self, cell: Cell) -> list[Truth] | None:
        if not self.knows_text:
            return None
        if cell.task not in self.truths:
            snapshots = SnapshotSet(load_task(cell.task), cell.defense, cell.seed)
            self.truths[cell.task] = [snapshots.read_truth(i).truth() for i in snapshots.indices]
        return self.truths[cell.task]

    def _require_an_update(self) -> None:
        """Where no gradient can be computed, there is nothing to audit."""
        first = [f.record for f in self.findings if key_of(f.cell) == self.order[0]]
        failed = [r for r in first if not r.snapshots and r.status is not Status.UNSUPPORTED]
        if failed and len(failed) == sum(r.status is not Status.UNSUPPORTED for r in first):
            reason = failed[0].reason.removeprefix("the defense failed: ")
            if failed[0].status is Status.OUT_OF_MEMORY:
                raise UserError(
                    f"A gradient of this model does not fit into memory ({reason}); give a smaller "
                    "--batch, or more memory."
                )
            if failed[0].status is Status.TIMEOUT:
                raise UserError(
                    f"The gradients of these texts take too long ({reason}); give a longer --time, "
                    "or fewer --sentences."
                )
            raise UserError(f"No gradient of this model can be computed ({reason}).")

    # ------------------------------------------------------------------------- updates on disk

    def _note_costs(self, snapshots: SnapshotSet) -> None:
        """What making an update took, from the manifests that were written."""
        paths = [snapshots.path(index) for index in snapshots.indices]
        if not all(path.with_suffix(".json").exists() for path in paths):
            return
        manifests = [read_manifest(path) for path in paths]
        key = snapshots.defense.name, snapshots.side.task.batch_size
        self.costs.setdefault(
            key,
            Costs(
                seconds=mean(m.seconds for m in manifests if m.seconds is not None),
                bytes=mean(m.bytes_up for m in manifests),
                epsilon=manifests[0].epsilon,
            ),
        )
        if all(snapshots != other for other, _ in self.stored):
            self.stored.append((snapshots, sum(path.stat().st_size for path in paths)))

    def _make_space(self) -> None:
        """Remove the oldest updates while all together take too much."""
        while sum(size for _, size in self.stored) > KEPT_BYTES:
            self.stored.pop(0)[0].remove()

    # ------------------------------------------------------------------------------- utility

    def _train(self) -> None:
        """Train with each defense, once, for what that costs in quality."""
        trials, self.plan.trials = self.plan.trials, []
        if not trials:
            return
        if self._left() > LEAST_SECONDS:
            reporter = _TrialReporter(self._trained)
            limit = self._share(len(trials))
            UtilityRun(self.engine, reporter, limit, self.memory_limit_mb).run(trials)
        else:
            for trial in trials:
                self._note_quality(trial, {}, TIME_IS_UP)

    def _trained(self, trial: Trial, record: UtilityRecord) -> None:
        failed = "" if record.status is Status.OK else f"{record.status}: {record.reason}"
        self._note_quality(trial, dict(record.metrics), failed)
        self.changed(self.report())

    def _note_quality(self, trial: Trial, quality: dict[str, float], reason: str) -> None:
        key = trial.defense.name, trial.task.batch_size
        known = self.costs.get(key, Costs())
        costs = Costs(known.seconds, known.bytes, known.epsilon, quality, reason)
        self.costs[key] = costs


@dataclass(frozen=True)
class _TrialReporter:
    """Passes on the end of a training."""

    pass_on: Callable[[Trial, UtilityRecord], None]

    def ended(self, cell: Trial, record: UtilityRecord) -> None:
        """A training has its record."""
        self.pass_on(cell, record)
