"""Plan, cells, records: every cell ends as a record, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmark import records, registry
from benchmark.building import DefenseFailed, SnapshotSet
from benchmark.engines.local import LocalEngine
from benchmark.jobs import Job, Outcome
from benchmark.matching import misfit_with_task, misfit_with_update
from benchmark.planning import Cell, groups
from benchmark.provenance import provenance
from benchmark.records import Record, SnapshotResult, Status
from benchmark.registry import LoadedTask
from benchmark.snapshots import Sheet, number_from
from benchmark.spec import Knowledge

MAX_SENTENCES = 10_000


class Reporter(Protocol):
    """Told of everything that a person waiting wants to know."""

    def built(self, label: str) -> None: ...

    def ended(self, cell: Cell, record: Record) -> None: ...


@dataclass
class Run:
    """One call of `leakboard run` at work."""

    engine: LocalEngine
    reporter: Reporter
    time_limit: float
    memory_limit_mb: float
    device: str
    done: list[Record] = field(default_factory=list)
    _cell_of: dict[int, Cell] = field(default_factory=dict)
    _set_of: dict[int, tuple[SnapshotSet, list[Cell]]] = field(default_factory=dict)
    _sheets: dict[int, list[Sheet]] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell]) -> list[Record]:
        """Run all cells that are not there yet; records are written as cells end."""
        fitting = []
        for cell in cells:
            reason = misfit_with_task(cell)
            if reason:
                self._write(cell, Status.UNSUPPORTED, reason)
            else:
                fitting.append(cell)
        first = [job for group in groups(fitting).values() for job in self._open(group)]
        self.engine.run(first, self._finished)
        return self.done

    # --------------------------------------------------------------------------- snapshots first

    def _open(self, cells: list[Cell]) -> list[Job]:
        """Jobs of cells on the same snapshots: the snapshots where missing, else the cells."""
        snapshots = SnapshotSet(registry.load_task(cells[0].task), cells[0].defense, cells[0].seed)
        missing = snapshots.missing()
        if not missing:
            return self._recover_jobs(snapshots, cells)
        job = snapshots.job(missing, self.time_limit, self.memory_limit_mb)
        self._set_of[id(job)] = (snapshots, cells)
        return [job]

    def _finished(self, outcome: Outcome) -> Iterable[Job]:
        if outcome.job.kind == "recover":
            self._close(self._cell_of[id(outcome.job)], outcome)
            return []
        snapshots, cells = self._set_of[id(outcome.job)]
        try:
            snapshots.store(outcome)
        except DefenseFailed as failure:
            for cell in cells:
                self._write(cell, Status(failure.status), failure.reason)
            return []
        self.reporter.built(outcome.job.label)
        return self._recover_jobs(snapshots, cells)

    # -------------------------------------------------------------------------------- then cells

    def _recover_jobs(self, snapshots: SnapshotSet, cells: list[Cell]) -> list[Job]:
        sheets = snapshots.sheets()
        jobs = []
        for cell in cells:
            reason = misfit_with_update(cell, sheets[0])
            if reason:
                self._write(cell, Status.UNSUPPORTED, reason, sheets)
                continue
            job = self._recover_job(cell, snapshots, sheets)
            self._cell_of[id(job)], self._sheets[id(job)] = cell, sheets
            jobs.append(job)
        return jobs

    def _recover_job(self, cell: Cell, snapshots: SnapshotSet, sheets: list[Sheet]) -> Job:
        task, side = cell.task, snapshots.side
        files = {f"snapshots/{i:03d}": snapshots.path(i) for i in snapshots.indices}
        files["model"] = side.model_directory
        prior = None
        if Knowledge.PRIOR in task.grants:
            prior = "self" if side.prior_directory is None else "prior"
            files |= {"prior": side.prior_directory} if side.prior_directory else {}
        if Knowledge.PUBLIC_TEXT in task.grants:
            files["public.json"] = public_file(side)
        payload = {
            "submission": cell.attack.entry.reference,
            "parameters": dict(cell.attack.parameters),
            "task": task.name,
            "objective": task.objective,
            "precision": task.precision,
            "batch_size": task.batch_size,
            "batch_tokens": task.batch_tokens,
            "max_tokens": task.max_tokens,
            "grants": sorted(task.grants),
            "prior": prior,
            "prior_shares_ids": side.prior_shares_ids,
            "seed": cell.seed,
            "snapshots": [self._item(cell, snapshots, sheet) for sheet in sheets],
        }
        return Job("recover", payload, files, self.time_limit, self.memory_limit_mb, cell.label)

    def _item(self, cell: Cell, snapshots: SnapshotSet, sheet: Sheet) -> dict[str, Any]:
        """One snapshot as the attack sees it: granted knowledge and nothing more."""
        granted = cell.task.grants
        truth = snapshots.read_truth(sheet.index)
        return {
            "index": sheet.index,
            "file": f"snapshots/{sheet.index:03d}",
            "batch_size": len(truth.lengths),
            "update_kind": sheet.update_kind,
            "local_steps": sheet.local_steps,
            "learning_rate": sheet.learning_rate,
            "noise_scale": sheet.noise_scale if Knowledge.NOISE_SCALE in granted else None,
            "labels": truth.labels if Knowledge.LABELS in granted else None,
            "lengths": truth.lengths if Knowledge.LENGTHS in granted else None,
            "frequencies": (
                truth.truth().frequencies if Knowledge.FREQUENCIES in granted else None
            ),
            "type_count": (
                len(truth.truth().token_types) if Knowledge.TYPE_COUNT in granted else None
            ),
            # of the attack alone, so that its variants begin alike and differ by what they vary
            "seed": number_from(cell.task.name, cell.attack.entry.name, cell.seed, sheet.index),
        }

    # ------------------------------------------------------------------------------- into records

    def _close(self, cell: Cell, outcome: Outcome) -> None:
        """Turn what a worker said, however it ended, into a record."""
        sheets = self._sheets[id(outcome.job)]
        side = registry.load_task(cell.task)
        answers = {event.get("index"): event for event in outcome.events("recovered")}
        status, reason = _cell_verdict(outcome)
        results = [
            _result(sheet, answers.get(sheet.index), status, reason, side) for sheet in sheets
        ]
        bad = [result for result in results if result.status is not Status.OK]
        if status is Status.OK and bad:
            status = bad[0].status
            reason = f"{len(bad)} of {len(results)} snapshots failed: {bad[0].reason}"
        extra: dict[str, Any] = {"device": outcome.device}
        for event in (*outcome.events("prepared"), *outcome.events("done")):
            extra |= event
        self._write(cell, status, reason, sheets, results, extra)

    def _write(
        self,
        cell: Cell,
        status: Status,
        reason: str,
        sheets: Sequence[Sheet] = (),
        results: Sequence[SnapshotResult] = (),
        measured: dict[str, Any] | None = None,
    ) -> None:
        measured = measured or {}
        record = Record(
            **cell.names(),
            attack=cell.attack.entry.name,
            attack_parameters=dict(cell.attack.parameters),
            attack_variant=cell.attack.variant,
            status=status,
            reason=reason,
            snapshots=list(results),
            prepare_seconds=measured.get("seconds"),
            peak_mb=measured.get("peak_mb"),
            device_peak_mb=measured.get("device_peak_mb"),
            bytes_up=sum(s.bytes_up for s in sheets) / len(sheets) if sheets else None,
            epsilon=sheets[0].epsilon if sheets else None,
            provenance=provenance(cell, measured.get("device", self.device), self.engine.threads),
        )
        records.write(cell.path, record)
        records.score_path(cell.path).unlink(missing_ok=True)
        self.done.append(record)
        self.reporter.ended(cell, record)


def _cell_verdict(outcome: Outcome) -> tuple[Status, str]:
    """How the whole cell ended: by its own word, else by the word of whoever watched it."""
    for event in (*outcome.events("broken"), *outcome.events("failed")):
        return Status(event.get("status", "error")), str(event["reason"])
    if outcome.status == "ok" and not outcome.events("done"):
        return Status.ERROR, "the process ended before it had finished"
    reason = outcome.reason
    if outcome.status == "error" and outcome.log.strip():
        reason = f"{reason}: {outcome.log.strip().splitlines()[-1][:300]}"
    return Status(outcome.status), reason


def _result(
    sheet: Sheet, answer: dict[str, Any] | None, status: Status, reason: str, side: LoadedTask
) -> SnapshotResult:
    """One snapshot's part of a record; what goes beyond the vocabulary or limit is `invalid`."""
    if answer is None:
        failed = status if status is not Status.OK else Status.ERROR
        return SnapshotResult(index=sheet.index, digest=sheet.digest, status=failed, reason=reason)
    kept = {k: v for k, v in answer.items() if k not in ("event", "status")}
    if not side.all_in_vocabulary([*kept["sentences"], kept["token_types"] or []]):
        problem = "a token id is outside the vocabulary"
    elif len(kept["sentences"]) > MAX_SENTENCES:
        problem = f"returned {len(kept['sentences'])} sentences, more than {MAX_SENTENCES}"
    else:
        texts = [side.decode(ids) for ids in kept["sentences"]]
        own = Status(answer["status"])
        return SnapshotResult(digest=sheet.digest, status=own, texts=texts, **kept)
    return SnapshotResult(
        index=sheet.index, digest=sheet.digest, status=Status.INVALID, reason=problem
    )


def public_file(side: LoadedTask) -> Path:
    """The hold-out text as a file that workers are given."""
    import json

    from benchmark.paths import cache_directory

    path = cache_directory() / "hold-out" / f"{side.digest}.json"
    if not path.exists():
        given = {"text": side.public_text(), "sources": side.public_sources()}
        records.write_atomically(path, json.dumps(given))
    return path
