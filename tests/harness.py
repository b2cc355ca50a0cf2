"""One engine for all tests that run cells, with odd submissions beside the real ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.cli import listing
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins import registry
from benchmark.plugins.catalog import Catalog
from benchmark.results.schema import Record
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell, Selection, plan_cells

PLUGINS = Path(__file__).parent / "benchmark" / "odd_submissions"


class Quiet:
    """A reporter that says nothing."""

    def built(self, label: str) -> None: ...

    def ended(self, cell: Cell, record: Record) -> None: ...


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The odd submissions, outside the tests folder, which no worker may read."""
    folder = shutil.copytree(PLUGINS, tmp_path_factory.mktemp("plugins") / "odd")
    (folder / "attacks" / "syntax.py").write_text("class Broken(\n")
    os.environ["LEAKBOARD_SUBMISSIONS"] = str(folder)
    yield folder
    del os.environ["LEAKBOARD_SUBMISSIONS"]


@pytest.fixture(scope="session")
def engine(plugins: Path, cache: Path) -> Iterator[LocalEngine]:
    with LocalEngine(["cpu"], threads=1) as running:
        yield running


@pytest.fixture(scope="session")
def catalogs(engine: LocalEngine) -> tuple[Catalog, Catalog]:
    return listing.submissions("attack", engine), listing.submissions("defense", engine)


FEW = 4
RunCells = Callable[..., list[Record]]


@pytest.fixture
def few_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task with `FEW` snapshots, which show what a test wants to see."""
    suites, broken = registry.find_suites()
    smaller = {
        name: replace(suite, tasks=tuple(replace(task, snapshots=FEW) for task in suite.tasks))
        for name, suite in suites.items()
    }
    monkeypatch.setattr(registry, "find_suites", lambda: (smaller, broken))


@pytest.fixture
def run_cells(
    engine: LocalEngine,
    catalogs: tuple[Catalog, Catalog],
    tmp_path: Path,
    few_snapshots: None,
) -> RunCells:
    """Run `attack` on a task and return the records."""

    def run(
        attack: str,
        task: str = "mini/cola",
        defense: str = "none",
        time_limit: float = 60.0,
        memory_limit_mb: float = 8000.0,
        results: Path | None = None,
    ) -> list[Record]:
        choice = Selection("mini", task, attack, defense)
        cells = plan_cells(choice, *catalogs, results or tmp_path)
        work = Run(engine, Quiet(), time_limit, memory_limit_mb, "cpu")
        return work.run([cell for cell in cells if not cell.cached])

    return run
