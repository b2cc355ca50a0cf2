"""What a defense sends is checked by the harness: no field carries what the tensors do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from benchmark.errors import InvalidUpdate
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Trained, Updated
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.plugins.selection import choose
from benchmark.results.schema import Status
from benchmark.runs.plan import Selection
from benchmark.runs.utility_plan import make_trial
from benchmark.runs.utility_run import UtilityRun
from benchmark.snapshots.store import read_manifest, snapshot_path
from benchmark.snapshots.validate import (
    CheckedUpdate,
    UpdateSettings,
    update_settings,
    validate_training,
    validate_update,
    validate_weights,
)
from benchmark.spec import Update
from benchmark.suites import LoadedTask
from tests.benchmark.runs.test_utility import Quiet, tiny
from tests.harness import FEW, RunCells

REFUSED = {
    "local_steps": "its local_steps is not the task's, 1",
    "learning_rate": "its learning_rate is not the task's, 1.0",
    "kind": "its update_kind is not the task's, gradient",
    "noise": "its noise_scale does not lie between 0 and 1e+06",
    "huge noise": "its noise_scale does not lie between 0 and 1e+06",
    "epsilon": "its epsilon does not lie between 0 and 1e+30",
    "foreign tensor": "it holds a tensor that is no parameter of the model",
    "withheld tensors": "it shares other parameters from one snapshot to the next",
    "nan": "holds NaN or infinite values",
    "type": "does not have the parameter's shape and type",
    "shape": "does not have the parameter's shape and type",
    "metadata": "its file holds metadata",
    "tail": "its file cannot be read",
    "gap": "its file cannot be read",
    "twice": "the header of its file says something twice",
}


def stored(way: str, index: int = 0) -> Path:
    return snapshot_path("mini/cola", f"smuggler[way={way}]", 0, index)


@pytest.mark.parametrize("way", REFUSED)
def test_what_is_no_plain_update_is_invalid_and_reaches_no_attack(
    way: str, run_cells: RunCells
) -> None:
    defense = "smuggler" if way == "local_steps" else f"smuggler[way={way}]"
    record = run_cells("random", defense=defense)[0]
    assert record.status is Status.INVALID
    assert record.reason.startswith("the defense failed: ")
    assert REFUSED[way] in record.reason
    assert record.snapshots == []
    folder = snapshot_path("mini/cola", defense, 0, 0).parent
    assert not folder.exists() or list(folder.iterdir()) == []


def header(file: Path) -> bytes:
    """What a file says of its tensors, before their numbers begin."""
    content = file.read_bytes()
    return content[: 8 + int.from_bytes(content[:8], "little")]


@pytest.mark.parametrize("way", ["spaces", "order"])
def test_the_harness_writes_the_file_itself(way: str, run_cells: RunCells) -> None:
    """So what a header may say in several ways, it says in one."""
    assert run_cells("random", defense=f"smuggler[way={way}]")[0].status is Status.OK
    run_cells("random")
    for index in range(FEW):
        plain = snapshot_path("mini/cola", "none", 0, index)
        assert header(stored(way, index)) == header(plain)
        # the plain one may be another test's, made with another number of threads
        tensors, expected = load_file(stored(way, index)), load_file(plain)
        assert all(np.allclose(tensors[n], expected[n], rtol=1e-4, atol=1e-6) for n in expected)


def test_bytes_and_roles_are_the_harness_own(run_cells: RunCells) -> None:
    record = run_cells("random", defense="smuggler[way=bytes_up]")[0]
    plain = run_cells("random")[0]
    assert record.bytes_up == plain.bytes_up
    side = load_task(all_tasks()["mini/cola"])
    manifest = read_manifest(stored("bytes_up"))
    model, _ = model_package().open_model(
        side.model_directory, "classification", "float32", torch.device("cpu")
    )
    names = model_package().roles(model).names
    assert manifest.roles == {str(role): name for role, name in names.items()}
    assert dict(side.form.shapes) == {n: tuple(p.shape) for n, p in model.named_parameters()}
    tensors = {name: torch.from_numpy(t) for name, t in load_file(stored("bytes_up")).items()}
    assert manifest.bytes_up == Update(tensors).bytes_up


def test_sparse_tensors_are_counted_as_an_update_counts_them() -> None:
    sparse = np.zeros((50, 7), dtype=np.float64)
    sparse[3, :2] = 1.5
    tensors: dict[str, np.ndarray[Any, Any]] = {"a": sparse, "b": np.ones(3, dtype=np.float32)}
    checked = CheckedUpdate(tensors, "gradient", 1, 1.0, None, None)
    assert checked.bytes_up == Update({n: torch.from_numpy(t) for n, t in tensors.items()}).bytes_up


# ----------------------------------------------------------------------------------- piece by piece


@pytest.fixture(scope="module")
def side() -> LoadedTask:
    return load_task(tiny("mini/cola"))


def said(noise_scale: float | None = None, epsilon: float | None = None) -> Updated:
    return Updated.model_construct(
        index=0, update_kind="gradient", local_steps=1, learning_rate=1.0, bytes_up=1, roles={},
        noise_scale=noise_scale, epsilon=epsilon,
    )  # fmt: skip


def write(side: LoadedTask, path: Path, **changes: Any) -> Path:
    tensors = {name: np.zeros(shape, np.float32) for name, shape in side.form.shapes.items()}
    save_file(tensors | changes, path)
    return path


def test_a_plain_update_passes_and_its_noise_has_four_digits(
    side: LoadedTask, tmp_path: Path
) -> None:
    path = write(side, tmp_path / "update")
    assert validate_update(side, said(), path).tensors.keys() == side.form.shapes.keys()
    assert validate_update(side, said(noise_scale=0.0123456789), path).noise_scale == 0.01235
    assert validate_update(side, said(epsilon=6.6e19), path).epsilon == 6.6e19
    for value in (float("nan"), float("inf"), -0.1):
        with pytest.raises(InvalidUpdate, match="noise_scale"):
            validate_update(side, said(noise_scale=value), path)


def test_several_local_steps_are_those_of_the_task() -> None:
    task = replace(all_tasks()["mini/cola-fedavg"], local_steps=4, learning_rate=0.5)
    assert update_settings(task) == UpdateSettings("difference", 4, 0.5)


def test_an_empty_or_swollen_file_is_refused(side: LoadedTask, tmp_path: Path) -> None:
    save_file({}, tmp_path / "empty")
    with pytest.raises(InvalidUpdate, match="empty"):
        validate_update(side, said(), tmp_path / "empty")
    swollen = write(side, tmp_path / "swollen", secret=np.zeros(10**7, np.float32))
    with pytest.raises(InvalidUpdate, match="larger than the model's parameters explain"):
        validate_update(side, said(), swollen)
    with pytest.raises(InvalidUpdate, match="cannot be read"):
        validate_update(side, said(), tmp_path / "missing")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 5}, "rounds"),
        ({"validation": [1.0] * 4}, "validation losses"),
        ({"bytes_up": 1e14}, "bytes_up"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_a_training_claims_what_its_budget_allows(
    changes: dict[str, Any], words: str, side: LoadedTask
) -> None:
    plain = Trained(
        rounds=4, validation=[1.0] * 3, bytes_up=1000.0, epsilon=None, step_seconds=0.1,
        peak_mb=1.0, device_peak_mb=None,
    )  # fmt: skip
    validate_training(side, plain)
    with pytest.raises(InvalidUpdate, match=words):
        validate_training(side, plain.model_copy(update=changes))


def test_trained_weights_are_those_of_the_model(side: LoadedTask, tmp_path: Path) -> None:
    path = write(side, tmp_path / "weights")
    validate_weights(side, path)
    tensors = load_file(path)
    tensors.popitem()
    save_file(tensors, path)
    with pytest.raises(InvalidUpdate, match="missing"):
        validate_weights(side, path)


def test_a_training_that_lies_about_its_traffic_is_invalid(
    engine: LocalEngine, catalogs: tuple[Catalog, Catalog], side: LoadedTask, tmp_path: Path
) -> None:
    (chosen,) = choose(catalogs[1], "defense", "smuggler[way=bytes_up]")
    trial = make_trial(Selection("mini"), side, chosen, 0, tmp_path)
    (record,) = UtilityRun(engine, Quiet(), 120.0, 8000.0).run([trial])
    assert record.status is Status.INVALID
    assert "bytes_up does not lie between 0 and" in record.reason
    assert record.bytes_up is None
