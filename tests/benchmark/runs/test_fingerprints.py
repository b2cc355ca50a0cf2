"""What a result depends on is in its fingerprint: change it, and the cell is planned again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from tempfile import mkdtemp

import pytest

from benchmark.execution.engines.local import LocalEngine
from benchmark.paths import ROOT
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task, task_code
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell, Selection, plan_cells
from benchmark.runs.utility_plan import plan_utility
from benchmark.snapshots import dependencies
from benchmark.snapshots.build import SnapshotSet
from tests.harness import Quiet

Catalogs = tuple[Catalog, Catalog]
Change = Callable[[str, str], None]

UPDATES = (
    *(f"benchmark/{name}" for name in dependencies.UPDATE_CODE),
    *(str(path.relative_to(ROOT)) for path in task_code("updates")),
)
ATTACKS = tuple(f"benchmark/{name}" for name in dependencies.ATTACK_CODE)
TRAINING = (
    *(f"benchmark/{name}" for name in dependencies.TRAINING_CODE),
    *(str(path.relative_to(ROOT)) for path in task_code("training")),
)


@pytest.fixture(scope="module")
def results(
    engine: LocalEngine, catalogs: Catalogs, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """One cell that has been run."""
    folder = tmp_path_factory.mktemp("results")
    cells = plan_cells(Selection("mini", "cola", "random"), *catalogs, folder)
    Run(engine, Quiet(), 60.0, 8000.0, "cpu").run(cells)
    return folder


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Change:
    """Put a changed copy of a file in its place, as far as fingerprints can tell."""
    own = dependencies._own

    def change(name: str, addition: str) -> None:
        copy = Path(mkdtemp(dir=tmp_path)) / Path(name).name  # digests are kept by path
        copy.write_text((ROOT / name).read_text() + addition)

        def instead(paths: Sequence[Path]) -> list[Path]:
            return [copy if path == ROOT / name else path for path in paths]

        monkeypatch.setattr(dependencies, "_own", lambda names: instead(own(names)))
        monkeypatch.setattr(dependencies, "task_code", lambda part: instead(list(task_code(part))))

    return change


def planned(catalogs: Catalogs, results: Path) -> Cell:
    (cell,) = plan_cells(Selection("mini", "cola", "random"), *catalogs, results)
    return cell


def trial_fingerprint(catalogs: Catalogs, results: Path) -> str:
    selection = Selection("mini", "cola", None, "none")
    return plan_utility(selection, catalogs[1], results)[0].fingerprint


def test_the_files_that_matter_most_are_among_them() -> None:
    assert {"tasks/objectives.py", "benchmark/execution/seeds.py"} <= set(UPDATES)
    assert {"benchmark/execution/client.py", "benchmark/execution/worker.py"} <= set(UPDATES)
    assert "benchmark/execution/trainer.py" in TRAINING


@pytest.mark.parametrize("name", [*UPDATES, *ATTACKS])
def test_a_cell_is_planned_again_when_its_code_changes(
    catalogs: Catalogs, results: Path, change: Change, name: str
) -> None:
    assert planned(catalogs, results).cached
    change(name, '\n# a remark\n"""and a paragraph"""\n')
    assert planned(catalogs, results).cached
    change(name, "\nCHANGED = 1\n")
    assert not planned(catalogs, results).cached


@pytest.mark.parametrize("name", [*UPDATES, *TRAINING])
def test_a_training_is_planned_again_when_its_code_changes(
    catalogs: Catalogs, results: Path, change: Change, name: str
) -> None:
    before = trial_fingerprint(catalogs, results)
    change(name, "\nCHANGED = 1\n")
    assert trial_fingerprint(catalogs, results) != before


def test_other_training_code_leaves_attacks_alone(
    catalogs: Catalogs, results: Path, change: Change
) -> None:
    change("benchmark/execution/trainer.py", "\nCHANGED = 1\n")
    assert planned(catalogs, results).cached


def test_snapshots_are_built_again_by_other_code(
    catalogs: Catalogs, results: Path, change: Change
) -> None:
    cell = planned(catalogs, results)
    snapshots = SnapshotSet(load_task(cell.task), cell.defense, cell.seed)
    assert snapshots.missing() == []
    change("tasks/objectives.py", "\nCHANGED = 1\n")
    try:
        assert snapshots.missing() == list(snapshots.indices)
    finally:
        for index in snapshots.indices:  # drawn for the changed code
            snapshots.truth_path(index).unlink()


@pytest.mark.parametrize("library", dependencies.LIBRARIES)
@pytest.mark.parametrize(("part", "kept"), [(1, False), (2, True)])
def test_minor_versions_of_libraries_count_and_patches_do_not(
    catalogs: Catalogs,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    part: int,
    kept: bool,
) -> None:
    version = metadata.version

    def changed(name: str) -> str:
        parts = version(name).split(".")
        if name == library:
            parts[part] = "99"
        return ".".join(parts)

    monkeypatch.setattr(metadata, "version", changed)
    dependencies._digest.cache_clear()
    try:
        assert planned(catalogs, results).cached is kept
    finally:
        dependencies._digest.cache_clear()
