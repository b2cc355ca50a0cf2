"""What a defense's worker sent, checked by the harness before anything of it is stored.

A worker runs other people's code, and a field that nobody checks could carry the private text to
an attack. So every number must be the task's own or lie within bounds, tensors must be the model's
parameters, and the file that is stored is written by the harness. What is left are the numbers of
the tensors: those of a hostile defense may mean anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from safetensors import SafetensorError, safe_open

from benchmark.errors import InvalidUpdate
from benchmark.execution.events import Trained, Updated
from benchmark.files import one_line
from benchmark.suites import LoadedTask, Task

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Tensors = dict[str, Array]

LARGEST_NOISE = 1e6
LARGEST_EPSILON = 1e30
"""Noise of 1e-9 clipping bounds, the least in the papers' grids, accounts for an ε of 1e20."""
NOISE_DIGITS = 4
"""Of a noise scale: as many as an attack can use, and too few to hide a text in."""
HEADER_BYTES = 300
"""What the header of a file says of one tensor at most, beside its name."""
TYPES = {"float32": ("F32", 4), "float64": ("F64", 8)}
"""Name and bytes of an entry in a safetensors file, by a task's precision."""


@dataclass(frozen=True)
class CheckedUpdate:
    """A client's update that the harness has read and found to be one."""

    tensors: Tensors
    kind: Literal["gradient", "difference"]
    local_steps: int
    learning_rate: float
    noise_scale: float | None
    epsilon: float | None
    kept: tuple[str, ...] = ()
    """Parameters that the client trains and keeps to itself."""
    seconds: float | None = None

    @property
    def bytes_up(self) -> int:
        """Bytes on the wire, by the rule of `Update.bytes_up`."""
        return sum(bytes_on_the_wire(tensor) for tensor in self.tensors.values())

    def write(self, path: Path) -> None:
        """Store the tensors in the one way that the library has for them."""
        from safetensors.numpy import save_file

        save_file(self.tensors, path)
        path.chmod(0o644)  # safetensors lets only its owner read, a sandbox need not be it


def bytes_on_the_wire(tensor: Array) -> int:
    """Of one tensor: indices are sent with the values where that is less."""
    import numpy as np

    return min(tensor.nbytes, int(np.count_nonzero(tensor)) * (tensor.itemsize + 4))


# ----------------------------------------------------------------------------------------- updates


def validate_update(side: LoadedTask, said: Updated, path: Path) -> CheckedUpdate:
    """The update behind an event and its file; raises `InvalidUpdate`."""
    settings = update_settings(side.task)
    for name, value in vars(settings).items():
        if getattr(said, name) != value:
            raise InvalidUpdate(f"its {name} is not the task's, {value}")
    noise = _bounded("noise_scale", said.noise_scale, LARGEST_NOISE)
    tensors = read_tensors(side, path)
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise InvalidUpdate(f"the update of {name} holds NaN or infinite values")
    return CheckedUpdate(
        tensors=tensors,
        kind=settings.update_kind,
        local_steps=settings.local_steps,
        learning_rate=settings.learning_rate,
        noise_scale=None if noise is None else float(f"{noise:.{NOISE_DIGITS}g}"),
        epsilon=_bounded("epsilon", said.epsilon, LARGEST_EPSILON),
        kept=_kept(side, said, tensors),
        seconds=said.seconds,
    )


def _kept(side: LoadedTask, said: Updated, shared: Tensors) -> tuple[str, ...]:
    names = set(said.kept)
    if names and side.task.federation is None:
        raise InvalidUpdate("it keeps parameters, though the task has no rounds")
    if names & set(shared) or not names <= set(side.form.shapes):
        raise InvalidUpdate("it keeps what is no parameter of the model, or what it has sent")
    return tuple(name for name in side.form.shapes if name in names)


@dataclass(frozen=True)
class UpdateSettings:
    """What an update says of itself where it is what a task asks for."""

    update_kind: Literal["gradient", "difference"]
    local_steps: int
    learning_rate: float


def update_settings(task: Task) -> UpdateSettings:
    """A gradient, or the difference after the task's own local steps."""
    if task.local_steps == 1:
        return UpdateSettings("gradient", 1, 1.0)
    return UpdateSettings("difference", task.local_steps, task.learning_rate)


def require_same_names(groups: Iterable[Iterable[str]]) -> None:
    """Which parameters are shared is settled before a batch is seen, so it cannot tell of one."""
    if len({frozenset(names) for names in groups}) > 1:
        raise InvalidUpdate("it shares other parameters from one snapshot to the next")


def _bounded(name: str, value: float | None, largest: float) -> float | None:
    if value is not None and not 0.0 <= value <= largest:
        raise InvalidUpdate(f"its {name} does not lie between 0 and {largest:g}")
    return value


def _is_finite(tensor: Array) -> bool:
    import numpy as np

    return bool(np.isfinite(tensor).all())


def validate_client_update(side: LoadedTask, path: Path) -> Tensors:
    """What a client of a federated task sent in a round; raises `InvalidUpdate`."""
    tensors = read_tensors(side, path)
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise InvalidUpdate(f"the update of {name} holds NaN or infinite values")
    return tensors


# --------------------------------------------------------------------------------------- trainings


def validate_training(side: LoadedTask, said: Trained) -> None:
    """The numbers of a `trained` event, as far as the task's budget bounds them."""
    training = side.task.training
    assert training is not None
    if not 1 <= said.rounds <= training.rounds:
        raise InvalidUpdate(f"it claims another number of rounds than up to {training.rounds}")
    if len(said.validation) > training.checks + 1:
        raise InvalidUpdate(f"it reports more validation losses than {training.checks + 1}")
    _bounded("bytes_up", said.bytes_up, model_bytes(side))
    _bounded("epsilon", said.epsilon, LARGEST_EPSILON)


def validate_weights(side: LoadedTask, path: Path) -> None:
    """Trained weights are the model's parameters, all of them; diverged ones are tested as such."""
    if len(read_tensors(side, path)) < len(side.form.shapes):
        raise InvalidUpdate("some of the trained weights are missing")


def model_bytes(side: LoadedTask) -> int:
    """Bytes of all parameters of a task's model."""
    return sum(math.prod(s) for s in side.form.shapes.values()) * TYPES[side.task.precision][1]


# ------------------------------------------------------------------------------------------- files


def read_tensors(side: LoadedTask, path: Path) -> Tensors:
    """The tensors of a file that holds parameters of a task's model and nothing else."""
    form = side.form.shapes
    most = model_bytes(side) + 8 + sum(len(name.encode()) + HEADER_BYTES for name in form)
    try:
        if path.stat().st_size > most:
            raise InvalidUpdate("its file is larger than the model's parameters explain")
        with safe_open(path, framework="numpy") as file:
            if file.metadata() is not None:
                raise InvalidUpdate("its file holds metadata")
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                _check_tensor(side, name, file.get_slice(name))
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
        _check_layout(path, tensors)
    except (OSError, ValueError, SafetensorError) as error:
        if isinstance(error, InvalidUpdate):
            raise
        raise InvalidUpdate(f"its file cannot be read ({one_line(str(error), 200)})") from error
    if not tensors:
        raise InvalidUpdate("the update is empty")
    return tensors


def _check_tensor(side: LoadedTask, name: str, found: Any) -> None:
    if name not in side.form.shapes:
        raise InvalidUpdate("it holds a tensor that is no parameter of the model")
    wanted = side.form.shapes[name], TYPES[side.task.precision][0]
    if (tuple(found.get_shape()), found.get_dtype()) != wanted:
        raise InvalidUpdate(f"the update of {name} does not have the parameter's shape and type")


def _check_layout(path: Path, tensors: Tensors) -> None:
    """Tensors one behind the other, from the end of the header to the end of the file."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length), object_pairs_hook=_without_repetition)
    end = 0
    for entry in sorted(header.values(), key=lambda entry: tuple(entry["data_offsets"])):
        start, stop = entry["data_offsets"]
        if start != end:
            raise InvalidUpdate("its file has gaps between the tensors")
        end = stop
    if {*header} != {*tensors} or path.stat().st_size != 8 + length + end:
        raise InvalidUpdate("its file holds bytes that no tensor explains")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise InvalidUpdate("the header of its file says something twice")
    return found
