"""Builds snapshots: batches go to a sandboxed defense, its updates come back and are stored."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import InvalidUpdate, UserError
from benchmark.execution.events import Updated
from benchmark.execution.jobs import (
    ClientSettings,
    Job,
    Outcome,
    PrivateBatchFile,
    UpdateJob,
)
from benchmark.execution.seeds import client_seed, construction_seed
from benchmark.files import file_digest, naming
from benchmark.ownership import alone, staged, staging_folder
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.snapshots.dependencies import updates_digest
from benchmark.snapshots.salt import salt, salt_digest
from benchmark.snapshots.sketch import sketch_all
from benchmark.snapshots.store import (
    Manifest,
    Missing,
    OtherFormat,
    StoredTruth,
    batch_digest,
    check_file,
    inputs_digest,
    read_manifest,
    read_truth,
    snapshot_path,
    truth_path,
    write_checked,
)
from benchmark.snapshots.validate import CheckedUpdate, require_same_names, validate_update
from benchmark.spec import Batch
from benchmark.status import Status
from benchmark.suites import LoadedTask, PrivateBatch

Finished = Callable[[Outcome], Iterable[Job]]


class DefenseFailed(Exception):
    """The defense's client did not produce its updates; the cells on it fail with this reason."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class ObservedRound:
    """Where a federated training stood when its clients' updates were observed."""

    weights: Path
    """The server's."""
    states: Mapping[int, Path]
    """What clients had kept, by client."""


@dataclass(frozen=True)
class SnapshotSet:
    """All snapshots of one task under one defense with one seed."""

    side: LoadedTask
    defense: ConfiguredSubmission
    seed: int
    observed: ObservedRound | None = None
    """Federated tasks that are attacked in a later round than the first."""

    @property
    def indices(self) -> range:
        """Numbers of the task's snapshots."""
        return range(self.side.task.snapshots)

    def path(self, index: int) -> Path:
        """Tensor file of one snapshot."""
        return snapshot_path(self.side.task.name, self.defense.name, self.seed, index)

    def truth_path(self, index: int) -> Path:
        """Private batch of one snapshot; the same under every defense."""
        return truth_path(self.side.task.name, self.seed, index)

    def digest(self, index: int, batch: str) -> str:
        """Digest over the inputs of one snapshot."""
        name, digest = self.defense.entry.name, self.defense.digest(self.side.task)
        parameters = dict(self.defense.parameters)
        made_by, salted = f"{name} {digest}", salt_digest(self.side)
        task = self.side.settings_digest
        return inputs_digest(batch, task, salted, made_by, parameters, self.seed, index)

    def client_seed(self, index: int, batch: Batch) -> int:
        """Seed of what the defense's client draws for one snapshot: a secret."""
        names = self.side.task.name, self.defense.name
        return client_seed(salt(self.side), batch_digest(batch), *names, self.seed, index)

    # ------------------------------------------------------------------------------- reading

    def missing(self) -> list[int]:
        """Snapshots that are not there or were made from other inputs; damaged ones are named."""
        return [index for index in self.indices if not self._is_current(index)]

    def _is_current(self, index: int) -> bool:
        if not (self.path(index).with_suffix(".json").exists() and self.path(index).exists()):
            return False
        try:
            manifest = read_manifest(self.path(index))
        except (OtherFormat, Missing):
            return False
        same_code = manifest.code == updates_digest()
        batch = self.read_truth(index).batch_digest
        return same_code and manifest.digest == self.digest(index, batch)

    def manifests(self) -> list[Manifest]:
        """All manifests, checksums and tensor files checked: the last gate before an attack."""
        found = [read_manifest(self.path(index)) for index in self.indices]
        for index, manifest in zip(self.indices, found, strict=True):
            check_file(self.path(index), manifest)
        return found

    def read_truth(self, index: int) -> StoredTruth:
        """The private batch, drawn anew where it is not stored or the corpus has changed."""
        path = self.truth_path(index)
        stored = None
        with suppress(OtherFormat):
            stored = read_truth(path) if path.exists() else None
        if stored is None or stored.task_digest != self._truth_digest():
            stored = self._stored(index, self.side.private_batch(index, self.seed))
            write_checked(path, stored)
        return stored

    def _truth_digest(self) -> str:
        """Over what a private batch depends on: task, corpus, and the code that draws it."""
        parts = f"{self.side.digest} {updates_digest()}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def _stored(self, index: int, private: PrivateBatch) -> StoredTruth:
        return StoredTruth(
            task=self.side.task.name,
            task_digest=self._truth_digest(),
            seed=self.seed,
            index=index,
            batch_digest=batch_digest(private.batch),
            sentences=list(private.truth.sentences),
            labels=None if private.labels is None else list(private.labels),
            lengths=list(private.lengths),
        )

    # ------------------------------------------------------------------------------ building

    def job(
        self, indices: Sequence[int], time_limit: float, memory_limit_mb: float, finished: Finished
    ) -> Job:
        """The work of making these snapshots; its input files are removed by `store`."""
        staging, task = staging_folder(), self.side.task
        work = UpdateJob(
            client=ClientSettings.of(task),
            defense=self.defense.calls(),
            momentum=task.momentum,
            seed=construction_seed(salt(self.side), task.name, self.defense.name, self.seed),
            batches=tuple(self._lay_out(index, staging) for index in indices),
            received="received" if self.observed else "",
        )
        files = {"model": self.side.model_directory, "batches": staging}
        if self.observed is not None:
            files["received"] = self.observed.weights
        elif task.observed_round != "first":
            raise UserError(
                f"{task.name} is attacked in a later round; `leakboard run` trains up to there."
            )
        label = f"{task.name} · snapshots · {self.defense.name}"
        return Job(work, files, time_limit, memory_limit_mb, label, finished)

    def _lay_out(self, index: int, staging: Path) -> PrivateBatchFile:
        """Write one private batch, and those that the client trains on before it, into files."""
        name = f"{index:03d}"
        private = self.side.private_batch(index, self.seed).batch
        save_batch(private, staging / name)
        earlier = self.side.warmup_batches(index, self.seed)
        for step, batch in enumerate(earlier):
            save_batch(batch, staging / f"{name}-{step}")
        rows, state = self._lay_out_client(index, staging)
        return PrivateBatchFile(
            rows=rows,
            state=state,
            index=index,
            file=f"batches/{name}",
            warmup=tuple(f"batches/{name}-{step}" for step in range(len(earlier))),
            seed=self.client_seed(index, private),
            out=f"{name}.safetensors",
        )

    def _lay_out_client(self, index: int, staging: Path) -> tuple[str, str]:
        """Write the own rows of a federated client and what it has kept; names, or empty."""
        federation = self.side.task.federation
        if federation is None:
            return "", ""
        client = index % federation.clients
        rows, state = f"{index:03d}-rows", f"{index:03d}-state"
        save_batch(self.side.federated_data(self.seed).clients[client], staging / rows)
        if self.observed is None or client not in self.observed.states:
            return f"batches/{rows}", ""
        shutil.copyfile(self.observed.states[client], staging / state)
        return f"batches/{rows}", f"batches/{state}"

    def store(self, indices: Sequence[int], outcome: Outcome) -> None:
        """Store what a defense's client sent, all of it or nothing.

        Raises:
            DefenseFailed: something is missing, or is no update of this task.
        """
        self.discard_staging(outcome)
        try:
            self._store_each(indices, outcome)
        except DefenseFailed:
            self.remove(indices)
            raise

    def _store_each(self, indices: Sequence[int], outcome: Outcome) -> None:
        others = [i for i in self.indices if i not in indices and self._is_current(i)]
        names = [frozenset(read_manifest(self.path(index)).sketch) for index in others]
        kept: list[frozenset[str]] = []
        for index, update in self.updates(indices, outcome):  # one at a time: each may be large
            names.append(frozenset(update.tensors))
            kept.append(frozenset(update.kept))
            with _as_failure():
                require_same_names(names)
                require_same_names(kept)
            with alone(f"{self.path(index)}"):  # another run may have been faster
                if not self._is_current(index):
                    self.keep(index, update)

    def updates(
        self, indices: Sequence[int], outcome: Outcome
    ) -> Iterator[tuple[int, CheckedUpdate]]:
        """The client's updates, read by the harness; raises `DefenseFailed` at one that is none."""
        said = {event.index: event for event in outcome.events(Updated)}
        for index in indices:
            if index not in said:
                raise failure(outcome)
            with _as_failure():
                made = outcome.made / f"{index:03d}.safetensors"
                update = validate_update(self.side, said[index], made)
            made.unlink()  # half of what updates take on disk
            yield index, update

    def discard_staging(self, outcome: Outcome) -> None:
        """Remove the private batches that were laid out for the defense."""
        shutil.rmtree(outcome.job.files["batches"], ignore_errors=True)

    def keep(self, index: int, update: CheckedUpdate) -> None:
        """Store an update's tensors, written by the harness, and then their manifest."""
        target = self.path(index)
        with naming(target), staged(target) as made:
            update.write(made)
            manifest = self._manifest(index, update, file_digest(made))
            target.with_suffix(".json").unlink(missing_ok=True)
        write_checked(target.with_suffix(".json"), manifest)

    def _manifest(self, index: int, update: CheckedUpdate, sha256: str) -> Manifest:
        return Manifest(
            task=self.side.task.name,
            task_version=self.side.task.version,
            defense=self.defense.entry.name,
            defense_parameters=dict(self.defense.parameters),
            seed=self.seed,
            index=index,
            digest=self.digest(index, self.read_truth(index).batch_digest),
            code=updates_digest(),
            file_sha256=sha256,
            update_kind=update.kind,
            local_steps=update.local_steps,
            learning_rate=update.learning_rate,
            noise_scale=update.noise_scale,
            epsilon=update.epsilon,
            bytes_up=update.bytes_up,
            seconds=update.seconds,
            roles={str(k): v for k, v in self.side.form.roles.names.items()},
            sketch=sketch_all(update.tensors),
            kept=list(update.kept),
        )

    def remove(self, indices: Sequence[int] | None = None) -> None:
        """Delete the stored tensors and manifests, or some, so that they are built again."""
        for index in self.indices if indices is None else indices:
            for path in (self.path(index), self.path(index).with_suffix(".json")):
                with suppress(FileNotFoundError):
                    path.unlink()


def save_batch(batch: Batch, path: Path) -> None:
    """Store a batch as a worker reads it."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in vars(batch).items()}, path)


@contextmanager
def _as_failure() -> Iterator[None]:
    """What is no update makes the defense fail."""
    try:
        yield
    except InvalidUpdate as error:
        raise DefenseFailed(Status.INVALID, f"the defense failed: {error}") from error


def failure(outcome: Outcome) -> DefenseFailed:
    """Why a defense's client stopped short, in one sentence."""
    if complaint := outcome.complaint():
        unable = complaint.status is Status.UNSUPPORTED
        words = complaint.reason if unable else f"the defense failed: {complaint.reason}"
        return DefenseFailed(complaint.status, words)
    status = outcome.status if outcome.status is not Status.OK else Status.ERROR
    return DefenseFailed(status, f"the defense failed: {outcome.reason or 'it sent no update'}")
