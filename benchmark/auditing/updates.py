"""An update that a user has computed herself, stored as the snapshot that attacks observe."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmark.errors import UserError
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task
from benchmark.plugins.selection import choose
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.validate import CheckedUpdate, update_settings
from benchmark.suites import NO_DEFENSE, Suite, Task

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.floating] | torch.Tensor
    Arrays = Mapping[str, Array] | Sequence[Array]
    """Named gradients, or arrays in the order of their names."""


@dataclass(frozen=True)
class OwnUpdate:
    """Named tensors as a training loop has them."""

    arrays: Arrays
    names: Sequence[str] | None
    """Of a list of arrays, as Flower sends them."""
    difference: bool
    """New weights less old ones, instead of a gradient."""
    learning_rate: float
    buffers: Collection[str] = ()
    """Names that are no parameters but that a model's state has, too: they are left out."""


def store_update(given: OwnUpdate, seed: int, suite: Suite, defenses: Catalog) -> None:
    """Make the update the one snapshot of the suite's first task, as if the client had sent it."""
    task = suite.tasks[0]
    defense = choose(defenses, "defense", NO_DEFENSE)[0]
    snapshots = SnapshotSet(load_task(task), defense, seed)
    tensors = _tensors(given, snapshots.side.form.shapes, _factor(given, task))
    settings = update_settings(task)
    snapshots.keep(
        0,
        CheckedUpdate(
            tensors=tensors,
            kind=settings.update_kind,
            local_steps=settings.local_steps,
            learning_rate=settings.learning_rate,
            noise_scale=None,
            epsilon=None,
        ),
    )


def _factor(given: OwnUpdate, task: Task) -> float:
    """What turns the given numbers into the update: a single step's difference is a gradient."""
    if given.difference and task.local_steps == 1:
        return -1.0 / given.learning_rate
    if not given.difference and task.local_steps > 1:
        raise UserError(
            "Several local steps leave a difference of weights and no gradient; give new weights "
            "less old ones with difference=True, or local_steps=1."
        )
    return 1.0


def _tensors(
    given: OwnUpdate, shapes: Mapping[str, tuple[int, ...]], factor: float
) -> dict[str, NDArray[np.float32]]:
    """The model's own parameters among the given arrays, checked one by one."""
    import numpy as np

    tensors = {}
    for name, array in _named(given).items():
        if name not in shapes and name in given.buffers:
            continue
        if name not in shapes:
            raise UserError(f"The update has {name!r}, which is no parameter of the model.")
        values = np.asarray(_numbers(array), dtype=np.float32) * np.float32(factor)
        if values.shape != shapes[name]:
            raise UserError(
                f"The update of {name} has the shape {values.shape}, and the parameter has "
                f"{shapes[name]}."
            )
        if not np.isfinite(values).all():
            raise UserError(f"The update of {name} holds NaN or infinite values.")
        tensors[name] = np.ascontiguousarray(values)
    if not tensors:
        raise UserError("The update is empty; give at least one parameter of the model.")
    return tensors


def _numbers(array: Array) -> object:
    """A tensor of any device and precision as NumPy takes it."""
    return array.detach().float().cpu().numpy() if hasattr(array, "detach") else array


def _named(given: OwnUpdate) -> Mapping[str, Array]:
    if isinstance(given.arrays, Mapping):
        return given.arrays
    if given.names is None or len(given.names) != len(given.arrays):
        raise UserError(
            f"A list of {len(given.arrays)} arrays needs as many names, such as "
            "list(model.state_dict())."
        )
    return dict(zip(given.names, given.arrays, strict=True))
