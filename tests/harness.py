"""One engine for all tests that run cells, with odd submissions beside the real ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmark import listing, planning
from benchmark.engines.local import LocalEngine
from benchmark.planning import Cell, Selection
from benchmark.records import Record
from benchmark.registry import Catalogue
from benchmark.runner import Run

PLUGINS = Path(__file__).parent / "benchmark" / "plugins"


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
def catalogues(engine: LocalEngine) -> tuple[Catalogue, Catalogue]:
    return listing.submissions("attack", engine), listing.submissions("defense", engine)


RunCells = Callable[..., list[Record]]


@pytest.fixture
def run_cells(
    engine: LocalEngine, catalogues: tuple[Catalogue, Catalogue], tmp_path: Path
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
        cells = planning.plan(choice, *catalogues, results or tmp_path)
        work = Run(engine, Quiet(), time_limit, memory_limit_mb, "cpu")
        return work.run([cell for cell in cells if not cell.cached])

    return run
