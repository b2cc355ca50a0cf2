"""A federated training on disk: the clients' rows, the server's weights, what clients keep.

All of it lies below `simulations/<fingerprint>` in the cache. A round counts once `checkpoint.json`
has been replaced, which happens in one step, so a training that was killed goes on behind its last
complete round. Only the clients of a round are ever in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from benchmark.errors import InvalidUpdate, UserError
from benchmark.execution.federated_client import STATE
from benchmark.files import (
    FiniteFloat,
    Megabytes,
    Strict,
    file_digest,
    one_line,
    read_model,
    write_atomically,
    write_model,
)
from benchmark.ownership import staged
from benchmark.paths import cache_directory
from benchmark.plugins.registry import model_package
from benchmark.results.schema import RoundResult
from benchmark.snapshots.build import save_batch
from benchmark.snapshots.validate import model_bytes
from benchmark.suites import LoadedTask

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

STATE_BYTES = 3
"""What a client may keep, in sizes of the model."""


class Checkpoint(Strict):
    """Where a federated training stands after a round."""

    fingerprint: str
    round: int = 0
    """Complete rounds."""
    weights: str
    """File of the server's weights."""
    states: dict[int, str] = {}
    """File of what each client has kept, by client."""
    shares: bool = True
    """Whether the method sends anything at all."""
    history: list[RoundResult] = []
    failures: dict[str, int] = {}
    seconds: FiniteFloat = 0.0
    """Of all client rounds together."""
    updates: int = 0
    epsilon: FiniteFloat | None = None
    peak_mb: Megabytes = 0.0
    device_peak_mb: Megabytes | None = None


@dataclass(frozen=True)
class SimulationStore:
    """The folder of one federated training."""

    side: LoadedTask
    seed: int
    fingerprint: str

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        return cache_directory() / "simulations" / self.fingerprint

    def path(self, name: str) -> Path:
        """A file of the training."""
        return self.folder / name

    def rows(self, client: int) -> Path:
        """Training rows of a client."""
        return self.folder / "rows" / f"{client:05d}"

    # ------------------------------------------------------------------------------- checkpoints

    def read(self) -> Checkpoint:
        """The last complete round, or the beginning."""
        stored = self._checkpoint("checkpoint.json")
        if stored and stored.fingerprint == self.fingerprint and self._sound(stored):
            return stored
        return self.begin()

    def _checkpoint(self, name: str) -> Checkpoint | None:
        """A stored checkpoint; None where it is not there or damaged, which is as good as none."""
        try:
            return read_model(self.path(name), Checkpoint)
        except UserError:
            return None

    def _sound(self, stored: Checkpoint) -> bool:
        """Whether all files of a checkpoint are there, and are those that were written."""
        return all(self._is_sound(n) for n in (*stored.states.values(), stored.weights))

    def _is_sound(self, name: str) -> bool:
        try:
            return _digest_in(name) == _short_digest(self.path(name))
        except OSError:
            return False

    def observed(self, number: int) -> Checkpoint | None:
        """The checkpoint of a round that snapshots are taken in, if the training has been there."""
        stored = self._checkpoint(f"observed-{number:05d}.json")
        return stored if stored and self._sound(stored) else None

    def commit(self, checkpoint: Checkpoint, observed: bool) -> None:
        """Make a round count, then remove the files that nothing refers to any more."""
        if observed:
            write_model(self.path(f"observed-{checkpoint.round:05d}.json"), checkpoint)
        write_model(self.path("checkpoint.json"), checkpoint)
        self._tidy(checkpoint)

    def _tidy(self, checkpoint: Checkpoint) -> None:
        kept = {checkpoint.weights, *checkpoint.states.values()}
        for path in self.folder.glob("observed-*.json"):
            if stored := self._checkpoint(path.name):
                kept |= {stored.weights, *stored.states.values()}
        for path in self.folder.glob("*.safetensors"):
            if path.name not in kept:
                path.unlink()

    def restart(self) -> None:
        """Forget all complete rounds."""
        self.path("checkpoint.json").unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the training, but for what snapshots of its rounds need."""
        if not any(self.folder.glob("observed-*.json")):
            shutil.rmtree(self.folder, ignore_errors=True)

    # -------------------------------------------------------------------------------------- data

    def lay_out(self) -> None:
        """Write the rows of all clients, of validation and of the test, once."""
        done = self.path("rows/.complete")
        if done.exists() and done.read_text() == self._rows_digest():
            return
        done.parent.mkdir(parents=True, exist_ok=True)
        data = self.side.federated_data(self.seed)
        for client, batch in enumerate(data.clients):
            save_batch(batch, self.rows(client))
        save_batch(data.validation, self.path("rows/validation"))
        save_batch(data.test, self.path("rows/test"))
        write_atomically(done, self._rows_digest())

    def _rows_digest(self) -> str:
        """Of all files of rows: what was cut or changed is written again."""
        files = sorted(path for path in self.path("rows").iterdir() if path.name[0] != ".")
        return " ".join(f"{path.name}={_short_digest(path)}" for path in files)

    def weights(self, checkpoint: Checkpoint) -> dict[str, Array]:
        """The server's weights after a round."""
        from safetensors.numpy import load_file

        return load_file(self.path(checkpoint.weights))

    def begin(self) -> Checkpoint:
        """The checkpoint before the first round: the task's own weights."""
        import torch

        task = self.side.task
        model, _ = model_package().open_model(
            self.side.model_directory, task.objective, task.precision, torch.device("cpu")
        )
        weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
        name = self.write_weights(weights_name(0), weights)
        return Checkpoint(fingerprint=self.fingerprint, weights=name)

    def write_weights(self, name: str, weights: Mapping[str, Array]) -> str:
        """Store the server's weights under a name, which is returned with their digest in it."""
        from safetensors.numpy import save_file

        with staged(self.path(name)) as scratch:
            save_file({key: weights[key] for key in sorted(weights)}, scratch)
            scratch.chmod(0o644)
        return self._with_digest(name, self.path(name))

    def keep_state(self, client: int, number: int, made: Path) -> str:
        """Check what a client wants to keep, and store it; raises `InvalidUpdate`."""
        check_state(self.side, made)
        return self._with_digest(f"client-{client:05d}-{number:05d}.safetensors", made)

    def _with_digest(self, name: str, made: Path) -> str:
        """Give a file its place; its name tells what it has to hold."""
        stem, dot, ending = name.partition(".")
        name = f"{stem}-{_short_digest(made)}{dot}{ending}"
        shutil.move(made, self.path(name))
        return name


def weights_name(number: int) -> str:
    """File of the server's weights after a round."""
    return f"server-{number:05d}.safetensors"


def _digest_in(name: str) -> str:
    return name.partition(".")[0].rpartition("-")[2]


def _short_digest(path: Path) -> str:
    return file_digest(path)[:16]


def check_state(side: LoadedTask, path: Path) -> None:
    """Parameters in their own shapes, and other tensors of a bounded size; all finite."""
    import numpy as np

    if path.stat().st_size > STATE_BYTES * model_bytes(side) + (1 << 20):
        raise InvalidUpdate(f"a client keeps more than {STATE_BYTES} times its model")
    shapes = side.form.shapes
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                tensor = file.get_tensor(name)
                if not name.startswith(STATE) and shapes.get(name) != tensor.shape:
                    raise InvalidUpdate(
                        f"what a client keeps of {one_line(name, 80)} has a shape of its own"
                    )
                if not bool(np.isfinite(tensor).all()):
                    raise InvalidUpdate("what a client keeps holds NaN or infinite values")
    except (OSError, ValueError, SafetensorError) as error:
        if isinstance(error, InvalidUpdate):
            raise
        reason = one_line(str(error), 200)
        raise InvalidUpdate(f"what a client keeps cannot be read ({reason})") from error
