"""Builds snapshots: batches go to a sandboxed defense, its updates come back and are sealed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from benchmark.jobs import Job, Outcome
from benchmark.paths import cache_directory
from benchmark.planning import Chosen
from benchmark.records import file_digest
from benchmark.registry import LoadedTask
from benchmark.snapshots import (
    Sheet,
    StoredTruth,
    batch_digest,
    check_file,
    dump_sentences,
    inputs_digest,
    number_from,
    read_sheet,
    read_truth,
    sketch_file,
    snapshot_path,
    truth_path,
    write_sealed,
)

if TYPE_CHECKING:
    from benchmark.registry import PrivateBatch


class DefenseFailed(Exception):
    """The defense's client did not produce its updates; the cells on it fail with this reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class SnapshotSet:
    """All snapshots of one task under one defense with one seed."""

    side: LoadedTask
    defense: Chosen
    seed: int

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
        return inputs_digest(
            batch, self.side.settings_digest, f"{name} {digest}", parameters, self.seed, index
        )

    # ------------------------------------------------------------------------------- reading

    def missing(self) -> list[int]:
        """Snapshots that are not there or were made from other inputs; damaged ones are named."""
        return [index for index in self.indices if not self._is_current(index)]

    def _is_current(self, index: int) -> bool:
        if not (self.path(index).with_suffix(".json").exists() and self.path(index).exists()):
            return False
        sheet, truth = read_sheet(self.path(index)), self.read_truth(index)
        return sheet.digest == self.digest(index, truth.batch_digest)

    def sheets(self) -> list[Sheet]:
        """All sheets, with seals and tensor files checked: the last gate before an attack."""
        found = [read_sheet(self.path(index)) for index in self.indices]
        for index, sheet in zip(self.indices, found, strict=True):
            check_file(self.path(index), sheet)
        return found

    def read_truth(self, index: int) -> StoredTruth:
        """The private batch, drawn anew where it is not stored or the corpus has changed."""
        path = self.truth_path(index)
        stored = read_truth(path) if path.exists() else None
        if stored is None or stored.task_digest != self.side.digest:
            stored = self._stored(index, self.side.private_batch(index, self.seed))
            write_sealed(path, stored)
        return stored

    def _stored(self, index: int, private: PrivateBatch) -> StoredTruth:
        return StoredTruth(
            task=self.side.task.name,
            task_digest=self.side.digest,
            seed=self.seed,
            index=index,
            batch_digest=batch_digest(private.batch),
            sentences=dump_sentences(private.truth),
            labels=None if private.labels is None else list(private.labels),
            lengths=list(private.lengths),
        )

    # ------------------------------------------------------------------------------ building

    def job(self, indices: Sequence[int], time_limit: float, memory_limit_mb: float) -> Job:
        """The work of making these snapshots; its input files are removed by `store`."""
        from safetensors.torch import save_file

        task = self.side.task
        mail = cache_directory() / "drafts"
        mail.mkdir(parents=True, exist_ok=True)
        drafts = Path(tempfile.mkdtemp(dir=mail, prefix=f"{os.getpid()}-"))
        items: list[dict[str, Any]] = []
        for index in indices:
            private = self.side.private_batch(index, self.seed)
            save_file(
                {k: v.contiguous() for k, v in vars(private.batch).items()}, drafts / f"{index:03d}"
            )
            earlier = self.side.warmup_batches(index, self.seed)
            for step, batch in enumerate(earlier):
                save_file(
                    {k: v.contiguous() for k, v in vars(batch).items()},
                    drafts / f"{index:03d}-{step}",
                )
            seed = number_from(task.name, self.defense.name, self.seed, index)
            items.append(
                {
                    "index": index,
                    "file": f"batches/{index:03d}",
                    "warmup": [f"batches/{index:03d}-{s}" for s in range(len(earlier))],
                    "seed": seed,
                    "out": f"{index:03d}.safetensors",
                }
            )
        payload = {
            "defense": self.defense.parts(),
            "training": asdict(task.training) if task.training else None,
            "objective": task.objective,
            "precision": task.precision,
            "mode": task.mode,
            "local_steps": task.local_steps,
            "learning_rate": task.learning_rate,
            "momentum": task.momentum,
            "batches": items,
        }
        files = {"model": self.side.model_directory, "batches": drafts}
        label = f"{task.name} · snapshots · {self.defense.name}"
        return Job("update", payload, files, time_limit, memory_limit_mb, label)

    def store(self, outcome: Outcome) -> None:
        """Seal what a defense's client sent; raises `DefenseFailed` where something is missing."""
        self.discard_drafts(outcome)
        updates = {event["index"]: event for event in outcome.events("updated")}
        wanted = [item["index"] for item in outcome.job.payload["batches"]]
        for index in wanted:
            if index not in updates:
                raise failure(outcome)
            try:
                self._seal(index, updates[index], outcome.made / f"{index:03d}.safetensors")
            except (OSError, ValueError, TypeError, SafetensorError) as error:
                why = f"the defense failed: its update cannot be read ({error})"
                raise DefenseFailed("invalid", why) from error

    def discard_drafts(self, outcome: Outcome) -> None:
        """Remove the private batches that were laid out for the defense."""
        shutil.rmtree(outcome.job.files["batches"], ignore_errors=True)

    def _seal(self, index: int, update: dict[str, Any], made: Path) -> None:
        target = self.path(index)
        target.parent.mkdir(parents=True, exist_ok=True)
        sheet = Sheet(
            task=self.side.task.name,
            task_version=self.side.task.version,
            defense=self.defense.entry.name,
            defense_parameters=dict(self.defense.parameters),
            seed=self.seed,
            index=index,
            digest=self.digest(index, self.read_truth(index).batch_digest),
            file_sha256=file_digest(made),
            update_kind=update["update_kind"],
            local_steps=update["local_steps"],
            learning_rate=update["learning_rate"],
            noise_scale=update["noise_scale"],
            epsilon=update["epsilon"],
            bytes_up=update["bytes_up"],
            roles=update["roles"],
            sketch=sketch_file(made),
        )
        target.with_suffix(".json").unlink(missing_ok=True)
        shutil.move(made, target)
        write_sealed(target.with_suffix(".json"), sheet)

    def remove(self) -> None:
        """Delete the stored tensors and sheets, so that they are built again."""
        for index in self.indices:
            for path in (self.path(index), self.path(index).with_suffix(".json")):
                with suppress(FileNotFoundError):
                    path.unlink()


def failure(outcome: Outcome) -> DefenseFailed:
    """Why a defense's client stopped short, in one sentence."""
    for event in (*outcome.events("failed"), *outcome.events("broken")):
        status = event.get("status", "error")
        words = (
            event["reason"] if status == "unsupported" else f"the defense failed: {event['reason']}"
        )
        return DefenseFailed(status, words)
    status = outcome.status if outcome.status != "ok" else "error"
    return DefenseFailed(status, f"the defense failed: {outcome.reason or 'it sent no update'}")
