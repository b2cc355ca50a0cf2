"""The threat model: everything that an attack is told, built in this one place.

The attacker is the server, or whoever listens to what a client sends. It follows the protocol and
knows what everyone in the federation knows: the model, its tokenizer, how clients train and how
large their batches are. It sees the update that left a client. Beyond that it is told, fact by
fact, what it declares to use and the task grants (`Cell.told`), and nothing of the text behind the
update.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmark.execution.jobs import RecoverJob, SnapshotFacts, TaskFacts
from benchmark.execution.seeds import attack_seed
from benchmark.files import has_digest, write_atomically, write_digest
from benchmark.paths import cache_directory
from benchmark.runs.plan import Cell
from benchmark.runs.server_view import public_table, server_view
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.store import Manifest, StoredTruth
from benchmark.spec import Knowledge
from benchmark.suites import LoadedTask


@dataclass(frozen=True)
class Told:
    """What an attack learns: facts in its job, and files in its inbox."""

    work: RecoverJob
    files: Mapping[str, Path]


def tell(cell: Cell, snapshots: SnapshotSet, manifests: Sequence[Manifest]) -> Told:
    """Everything that the attack of a cell is told about the task and about each snapshot."""
    known = cell.told
    work = RecoverJob(
        attack=cell.attack.calls()[0],
        task=_about_task(cell, snapshots.side, known),
        snapshots=tuple(
            _about_snapshot(cell, manifest, snapshots.read_truth(manifest.index), known)
            for manifest in manifests
        ),
    )
    return Told(work, _files(snapshots, manifests[0].kept if manifests else (), known))


def _about_task(cell: Cell, side: LoadedTask, known: frozenset[Knowledge]) -> TaskFacts:
    """What is public before any update is sent."""
    task = cell.task
    prior: Literal["self", "file"] | None = None
    if Knowledge.PRIOR in known:
        prior = "self" if side.prior_directory is None else "file"
    return TaskFacts(
        task=task.name,
        objective=task.objective,
        precision=task.precision,
        batch_size=task.batch_size,
        batch_tokens=task.batch_tokens,
        max_tokens=task.max_tokens,
        grants=known,
        prior=prior,
        prior_shares_ids=side.prior_shares_ids,
        seed=attack_seed(cell.task.name, cell.attack.entry.name, cell.seed),
    )


def _about_snapshot(
    cell: Cell, manifest: Manifest, truth: StoredTruth, known: frozenset[Knowledge]
) -> SnapshotFacts:
    """What is known of one update. Of the truth, only facts that the attack is told go in."""
    batch = truth.truth()
    return SnapshotFacts(
        index=manifest.index,
        file=_snapshot_file(manifest.index),
        update_kind=manifest.update_kind,
        local_steps=manifest.local_steps,
        learning_rate=manifest.learning_rate,
        batch_size=len(truth.lengths),
        # of the attack alone, so that its variants begin alike and differ by what they vary
        seed=attack_seed(cell.task.name, cell.attack.entry.name, cell.seed, manifest.index),
        noise_scale=manifest.noise_scale if Knowledge.NOISE_SCALE in known else None,
        labels=_tuple(truth.labels) if Knowledge.LABELS in known else None,
        lengths=_tuple(truth.lengths) if Knowledge.LENGTHS in known else None,
        frequencies=batch.frequencies if Knowledge.FREQUENCIES in known else None,
        type_count=len(batch.token_types) if Knowledge.TYPE_COUNT in known else None,
    )


def _files(
    snapshots: SnapshotSet, kept: Sequence[str], known: frozenset[Knowledge]
) -> dict[str, Path]:
    """The server's weights, the updates, and text, prior and word vectors where told."""
    side = snapshots.side
    files = {"model": server_view(snapshots, kept)}
    if Knowledge.PUBLIC_TABLE in known:
        files["table.safetensors"] = public_table(side)
    files |= {_snapshot_file(index): snapshots.path(index) for index in snapshots.indices}
    if Knowledge.PRIOR in known and side.prior_directory is not None:
        files["prior"] = side.prior_directory
    if Knowledge.PUBLIC_TEXT in known:
        files["public.json"] = _hold_out_text(side)
    return files


def _snapshot_file(index: int) -> str:
    return f"snapshots/{index:03d}"


def _hold_out_text(side: LoadedTask) -> Path:
    """The public sentences as a file that workers are given."""
    path = cache_directory() / "hold-out" / f"{side.digest}.json"
    if not has_digest(path):
        given = {"text": side.public_text(), "sources": side.public_sources()}
        write_atomically(path, json.dumps(given))
        write_digest(path)
    return path


def _tuple(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)
