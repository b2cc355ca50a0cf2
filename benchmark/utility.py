"""`leakboard run --utility`: what each defense costs, by training with its updates.

A trial is one training with one seed. Its record lies beside the attacks on the same defense, is
written the moment the trial ends, and is kept while nothing that it depends on has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmark import records, registry
from benchmark.building import DefenseFailed, failure
from benchmark.engines.local import LocalEngine
from benchmark.errors import UserError
from benchmark.jobs import Job, Outcome
from benchmark.metrics.utility import Answers, measure
from benchmark.paths import cache_directory
from benchmark.planning import (
    Chosen,
    Planned,
    Selection,
    choose,
    choose_tasks,
    is_current,
    old_record,
)
from benchmark.provenance import origin
from benchmark.records import Status, UtilityRecord, utility_path
from benchmark.registry import Catalogue, LoadedTask
from benchmark.snapshots import number_from
from benchmark.suites import Pairing, Suite, Task
from benchmark.training import PROTOCOL

if TYPE_CHECKING:
    from benchmark.spec import Batch

SEEDS = 3
"""Trainings of each task with each defense."""
GUESSED_SECONDS = 10.0


@dataclass(frozen=True)
class Trial(Planned):
    """One training of one task's model with one defense and one seed."""

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.task.name} · utility · {self.defense.name} · seed {self.seed}"


class Reporter(Protocol):
    """Told of everything that a person waiting wants to know."""

    def ended(self, cell: Trial, record: UtilityRecord) -> None: ...


# -------------------------------------------------------------------------------------- planning


@cache
def priced_as(task: Task) -> Task:
    """The first task of the suite that trains alike: variants in batch size share one price."""
    digest = registry.price_settings(task)
    alike = (t for t in _suite_of(task).tasks if registry.price_settings(t) == digest)
    return next(alike, task)


def _suite_of(task: Task) -> Suite:
    return registry.suite(task.name.partition("/")[0])


def plan(selection: Selection, defenses: Catalogue, results: Path) -> list[Trial]:
    """All trials of a selection, in the suite's order, each once."""
    suite = registry.suite(selection.suite)
    pairs = [
        (task, defense)
        for line in _pairings(suite, selection)
        for task in dict.fromkeys(priced_as(t) for t in _trained(suite, line.task, selection.task))
        for defense in choose(defenses, "defense", line.defense)
    ]
    trials: dict[Path, Trial] = {}
    for task, defense in pairs:
        for seed in range(selection.seed, selection.seed + SEEDS):
            trial = _trial(selection, registry.load_task(task), defense, seed, results)
            trials.setdefault(trial.path, trial)
    return list(trials.values())


def _pairings(suite: Suite, selection: Selection) -> Sequence[Pairing]:
    """What was asked for; else the suite's own plan."""
    if selection.defense:
        return [Pairing(selection.task or "*", defense=selection.defense)]
    if selection.task:
        wanted = {t.name for t in choose_tasks(suite, selection.task)}
        lines = [p for p in suite.utility if wanted & {t.name for t in choose_tasks(suite, p.task)}]
        return lines or [Pairing(selection.task)]
    return suite.utility


def _trained(suite: Suite, line: str, asked: str | None) -> list[Task]:
    """Tasks of a line that were asked for and say how they train."""
    wanted = {task.name for task in choose_tasks(suite, asked or "*")}
    found = [task for task in choose_tasks(suite, line) if task.name in wanted]
    trained = [task for task in found if task.training is not None]
    if found and not trained:
        raise UserError(f"{found[0].name} does not say how it trains, so a defense has no price.")
    return trained


def _trial(
    selection: Selection, side: LoadedTask, defense: Chosen, seed: int, results: Path
) -> Trial:
    path = utility_path(results, side.task.name, defense.name, seed)
    parts = [records.SCHEMA_VERSION, PROTOCOL, side.price_digest, seed, defense.entry.name]
    parts += [defense.entry.digest, sorted(defense.parameters.items())]
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    old = old_record(path, UtilityRecord)
    return Trial(
        suite=selection.suite,
        task=side.task,
        defense=defense,
        seed=seed,
        path=path,
        fingerprint=fingerprint,
        cached=is_current(old, fingerprint) and not selection.force,
        expected_seconds=_seconds_of(old),
    )


def _seconds_of(record: UtilityRecord | None) -> float:
    if record is None or record.step_seconds is None or record.rounds is None:
        return GUESSED_SECONDS
    return record.step_seconds * record.rounds


# --------------------------------------------------------------------------------------- running


@dataclass
class UtilityRun:
    """One call of `leakboard run --utility` at work."""

    engine: LocalEngine
    reporter: Reporter
    time_limit: float
    memory_limit_mb: float
    done: list[UtilityRecord] = field(default_factory=list)
    _trial_of: dict[int, Trial] = field(default_factory=dict)
    _trained: dict[Path, dict[str, Any]] = field(default_factory=dict)
    """What training said, by the trial's path, while the test runs."""

    def run(self, trials: Sequence[Trial]) -> list[UtilityRecord]:
        """Train and test; records are written as trials end."""
        drafts = cache_directory() / "drafts"
        drafts.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(dir=drafts, prefix=f"{os.getpid()}-"))
        try:
            self._lay_out = _Layout(home)
            self.engine.run((self._train_job(trial) for trial in trials), self._finished)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return self.done

    def _train_job(self, trial: Trial) -> Job:
        side = registry.load_task(trial.task)
        data = self._lay_out.folder(side)
        files = {f"data/{name}": data / name for name in ("train", "validation")}
        payload = _payload(trial.task) | {
            "defense": trial.defense.parts(),
            "mode": trial.task.mode,
            "seed": number_from(trial.task.name, trial.seed) >> 1,  # every defense, the same order
        }
        files["model"] = side.model_directory
        return self._job("train", trial, payload, files)

    def _test_job(self, trial: Trial, outcome: Outcome) -> Job:
        side = registry.load_task(trial.task)
        weights = self._lay_out.home / f"{trial.fingerprint}.safetensors"
        shutil.move(outcome.made / "weights.safetensors", weights)
        assert trial.task.training is not None
        payload = _payload(trial.task) | {"max_tokens": trial.task.training.max_tokens}
        data = self._lay_out.folder(side)
        files = {"model": side.model_directory, "weights.safetensors": weights}
        return self._job("evaluate", trial, payload, files | {"data/test": data / "test"})

    def _job(self, kind: Any, trial: Trial, payload: dict[str, Any], files: dict[str, Path]) -> Job:
        job = Job(kind, payload, files, self.time_limit, self.memory_limit_mb, trial.label)
        self._trial_of[id(job)] = trial
        return job

    def _finished(self, outcome: Outcome) -> Iterable[Job]:
        trial = self._trial_of.pop(id(outcome.job))
        try:
            if outcome.job.kind == "train":
                self._trained[trial.path] = _only(outcome, "trained") | {"device": outcome.device}
                return [self._test_job(trial, outcome)]
            outcome.job.files["weights.safetensors"].unlink()
            self._close(trial, _only(outcome, "evaluated"))
        except DefenseFailed as problem:
            self._write(trial, Status(problem.status), problem.reason, {})
        except (OSError, ValueError) as problem:
            self._write(trial, Status.INVALID, str(problem), {})
        return []

    def _close(self, trial: Trial, tested: dict[str, Any]) -> None:
        side = registry.load_task(trial.task)
        data = side.training_data
        labels = data.test.labels.tolist() if trial.task.objective == "classification" else ()
        answers = Answers(
            losses=tested["losses"],
            tokens=tested["tokens"],
            predicted=tested["predicted"],
            labels=labels,
            texts=tested["texts"],
            references=data.references,
        )
        self._write(trial, Status.OK, "", measure(trial.task.utility, answers))

    def _write(self, trial: Trial, status: Status, reason: str, metrics: dict[str, float]) -> None:
        measured = self._trained.pop(trial.path, {})
        device = measured.pop("device", self.engine.devices[0])
        digest = trial.defense.digest(trial.task)
        record = UtilityRecord(
            **trial.names(),
            status=status,
            reason=reason,
            metrics=metrics,
            provenance=origin(trial.fingerprint, "", digest, device, self.engine.threads),
            **{key: value for key, value in measured.items() if key != "event"},
        )
        records.write(trial.path, record)
        self.done.append(record)
        self.reporter.ended(trial, record)


def _payload(task: Task) -> dict[str, Any]:
    assert task.training is not None
    return {
        "objective": task.objective,
        "precision": task.precision,
        "local_steps": task.local_steps,
        "learning_rate": task.learning_rate,
        "training": asdict(task.training),
    }


def _only(outcome: Outcome, event: str) -> dict[str, Any]:
    """What a worker was to say once; raises `DefenseFailed` where it did not."""
    found = outcome.events(event)
    if not found:
        raise failure(outcome)
    return found[0]


class _Layout:
    """Training data as files, once for each task, below a folder that the run removes."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def folder(self, side: LoadedTask) -> Path:
        """Where the batches of a task lie."""
        from safetensors.torch import save_file

        folder = self.home / side.price_digest
        if not folder.exists():
            folder.mkdir()
            data = side.training_data
            kinds: dict[str, Batch] = {
                "train": data.train,
                "validation": data.validation,
                "test": data.test,
            }
            for name, batch in kinds.items():
                save_file({k: v.contiguous() for k, v in vars(batch).items()}, folder / name)
        return folder
