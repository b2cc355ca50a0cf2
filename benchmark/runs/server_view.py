"""The model as the server of a federated training has it, which is the one an attacker has.

Shared parameters are those of the observed round. For what clients keep to themselves the server
has nothing that theirs is related to: it gets numbers of the same spread, drawn at random. Rows of
a shared table that clients hold back are what they were in the public model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.execution.seeds import derive_seed
from benchmark.files import file_digest, has_digest, write_digest
from benchmark.ownership import staged
from benchmark.paths import cache_directory
from benchmark.plugins.registry import model_package
from benchmark.snapshots.build import SnapshotSet
from benchmark.spec import Role
from benchmark.suites import LoadedTask

if TYPE_CHECKING:
    from torch import Tensor


def server_view(snapshots: SnapshotSet, kept: Sequence[str]) -> Path:
    """Folder of the server's model; the public one where nothing differs from it."""
    side, observed = snapshots.side, snapshots.observed
    if not kept and observed is None:
        return side.model_directory
    weights = file_digest(observed.weights) if observed else ""
    parts = [side.settings_digest, sorted(kept), weights]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    target = cache_directory() / "server-views" / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        values = _observed(snapshots) | _unrelated(side, kept)
        package, task = model_package(), side.task
        package.write_view(side.model_directory, target, task.objective, values)
    return model_package().verify_checksum(target)


def _observed(snapshots: SnapshotSet) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(snapshots.observed.weights) if snapshots.observed else {}


def _unrelated(side: LoadedTask, kept: Sequence[str]) -> dict[str, Tensor]:
    """Random numbers with the mean and spread of each parameter that clients keep."""
    import torch

    own = parameters(side)
    drawn = {}
    for name in kept:
        seed = derive_seed("unrelated parameters", side.task.model, name) >> 193
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(own[name].shape, generator=generator)
        drawn[name] = own[name].mean() + own[name].std() * noise
    return drawn


def parameters(side: LoadedTask) -> dict[str, Tensor]:
    """The public weights by parameter name."""
    import torch

    task = side.task
    model, _ = model_package().open_model(
        side.model_directory, task.objective, task.precision, torch.device("cpu")
    )
    return {name: value.detach() for name, value in model.named_parameters()}


def public_table(side: LoadedTask) -> Path:
    """The published word vectors as a file that workers are given."""
    from safetensors.torch import save_file

    path = cache_directory() / "tables" / f"{side.settings_digest}.safetensors"
    if not has_digest(path):
        table = parameters(side)[side.form.roles.names[Role.WORD_EMBEDDING]]
        with staged(path) as scratch:
            save_file({"table": table.contiguous()}, scratch)
            scratch.chmod(0o644)
        write_digest(path)
    return path
