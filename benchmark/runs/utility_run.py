"""Trains and tests with each defense's updates; a record is written the moment a trial ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Evaluated, Trained
from benchmark.execution.jobs import (
    ClientSettings,
    EvaluateJob,
    Job,
    Outcome,
    Said,
    TrainJob,
    Work,
    hand_over,
)
from benchmark.execution.seeds import training_seed
from benchmark.files import write_model
from benchmark.metrics.utility import Answers, measure
from benchmark.ownership import staging_folder
from benchmark.plugins.registry import load_task
from benchmark.results.schema import UtilityRecord
from benchmark.runs.federated_trial import FederatedTrial
from benchmark.runs.provenance import origin
from benchmark.runs.utility_plan import Trial
from benchmark.snapshots.build import DefenseFailed, Finished, failure, save_batch
from benchmark.snapshots.salt import salt
from benchmark.snapshots.validate import validate_training, validate_weights
from benchmark.status import Status
from benchmark.suites import LoadedTask


class UtilityReporter(Protocol):
    """Told of everything that a person waiting wants to know."""

    def ended(self, cell: Trial, record: UtilityRecord) -> None: ...


@dataclass
class UtilityRun:
    """One call of `leakboard run --utility` at work."""

    engine: LocalEngine
    reporter: UtilityReporter
    time_limit: float
    memory_limit_mb: float
    done: list[UtilityRecord] = field(default_factory=list)

    def run(self, trials: Sequence[Trial]) -> list[UtilityRecord]:
        """Train and test; records are written as trials end."""
        home = staging_folder()
        try:
            self._lay_out = _Layout(home)
            self.engine.run((job for t in trials for job in self._first_jobs(t)), hand_over)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return self.done

    def _first_jobs(self, trial: Trial) -> Iterable[Job]:
        """A federated training begins with the clients of a round."""
        if trial.task.federation is None:
            return [self._train_job(trial)]
        limits = self.time_limit, self.memory_limit_mb
        return FederatedTrial(trial, self.engine, *limits, self._write_federated).start()

    def _train_job(self, trial: Trial) -> Job:
        side = load_task(trial.task)
        data = self._lay_out.folder(side)
        files = {f"data/{name}": data / name for name in ("train", "validation")}
        work = TrainJob(
            client=ClientSettings.of(trial.task),
            defense=trial.defense.calls(),
            seed=training_seed(salt(side), trial.task.name, trial.seed),
        )
        files["model"] = side.model_directory
        return self._job(trial, work, files, partial(self._trained, trial))

    def _trained(self, trial: Trial, outcome: Outcome) -> list[Job]:
        """Go on to test what was trained."""
        training = None
        try:
            said = _only(outcome, Trained)
            validate_training(load_task(trial.task), said)
            training = FinishedTraining(said, outcome.device)
            return [self._test_job(trial, training, outcome.made / "weights.safetensors")]
        except DefenseFailed as problem:
            self._write(trial, problem.status, problem.reason)
        except (OSError, ValueError) as problem:
            self._write(trial, Status.INVALID, str(problem), training=training)
        return []

    def _test_job(self, trial: Trial, training: FinishedTraining, made: Path) -> Job:
        side = load_task(trial.task)
        weights = self._lay_out.home / f"{trial.fingerprint}.safetensors"
        validate_weights(side, made)
        shutil.move(made, weights)
        assert trial.task.training is not None
        limit = trial.task.training.max_tokens
        work = EvaluateJob(client=ClientSettings.of(trial.task), max_tokens=limit)
        data = self._lay_out.folder(side)
        files = {"model": side.model_directory, "weights.safetensors": weights}
        files["data/test"] = data / "test"
        return self._job(trial, work, files, partial(self._tested, trial, training, weights))

    def _tested(
        self, trial: Trial, training: FinishedTraining, weights: Path, outcome: Outcome
    ) -> list[Job]:
        """Turn what the trained model did on the test split into a record."""
        try:
            weights.unlink()
            metrics = _measure(trial, _only(outcome, Evaluated))
            self._write(trial, Status.OK, "", metrics, training)
        except DefenseFailed as problem:
            self._write(trial, problem.status, problem.reason, training=training)
        except (OSError, ValueError) as problem:
            self._write(trial, Status.INVALID, str(problem), training=training)
        return []

    def _job(self, trial: Trial, work: Work, files: dict[str, Path], finished: Finished) -> Job:
        return Job(work, files, self.time_limit, self.memory_limit_mb, trial.label, finished)

    def _write(
        self,
        trial: Trial,
        status: Status,
        reason: str,
        metrics: dict[str, float] | None = None,
        training: FinishedTraining | None = None,
    ) -> None:
        device = training.device if training else self.engine.devices[0]
        said = training.said.model_dump(exclude={"event"}) if training else {}
        self._store(trial, status, reason, metrics or {}, said, device)

    def _write_federated(
        self,
        trial: Trial,
        status: Status,
        reason: str,
        metrics: dict[str, float],
        measured: Mapping[str, object],
    ) -> None:
        self._store(trial, status, reason, metrics, measured, self.engine.devices[0])

    def _store(
        self,
        trial: Trial,
        status: Status,
        reason: str,
        metrics: dict[str, float],
        measured: Mapping[str, object],
        device: str,
    ) -> None:
        digest = trial.defense.digest(trial.task)
        provenance = origin(trial.fingerprint, "", digest, device, self.engine.threads)
        names = {**trial.names(), "status": status, "reason": reason, "metrics": metrics}
        record = UtilityRecord.model_validate({**names, **measured, "provenance": provenance})
        write_model(trial.path, record)
        self.done.append(record)
        self.reporter.ended(trial, record)


@dataclass(frozen=True)
class FinishedTraining:
    """What a worker said of a training, and the device that it ran on."""

    said: Trained
    device: str


def _measure(trial: Trial, tested: Evaluated) -> dict[str, float]:
    """The utility metrics of a task from what its trained model did."""
    data = load_task(trial.task).training_data
    labels = data.test.labels.tolist() if trial.task.objective == "classification" else ()
    answers = Answers(
        losses=tested.losses,
        tokens=tested.tokens,
        predicted=tested.predicted,
        labels=labels,
        texts=tested.texts,
        references=data.references,
    )
    return measure(trial.task.utility, answers)


def _only(outcome: Outcome, kind: type[Said]) -> Said:
    """What a worker was to emit once; raises `DefenseFailed` where it did not."""
    found = outcome.events(kind)
    if not found:
        raise failure(outcome)
    return found[0]


class _Layout:
    """Training data as files, once for each task, below a folder that the run removes."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def folder(self, side: LoadedTask) -> Path:
        """Where the batches of a task lie."""
        folder = self.home / side.training_digest
        if not folder.exists():
            folder.mkdir()
            data = side.training_data
            save_batch(data.train, folder / "train")
            save_batch(data.validation, folder / "validation")
            save_batch(data.test, folder / "test")
        return folder
