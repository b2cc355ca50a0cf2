"""An attack of somebody's own, run on a small official plan and packed: made once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmark.plugins import registry
from benchmark.suites import Pairing, Suite
from tests.in_process import leakboard

PLAN = (Pairing("cola", "random"), Pairing("sst2", "random"), Pairing("cola", "random", "prune"))
"""Three cells for any attack."""
SNAPSHOTS = 2


@dataclass(frozen=True)
class Published:
    """What a submitter has: the source, the records and the package."""

    source: Path
    results: Path
    package: Path


def small(suite: Suite) -> Suite:
    """The suite with few snapshots and a plan of three cells."""
    tasks = tuple(replace(task, snapshots=SNAPSHOTS) for task in suite.tasks)
    return replace(suite, tasks=tasks, plan=PLAN, utility=())


@pytest.fixture(scope="module")
def published(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """`new` and `submit` for an attack in a folder of its own; its official plan is `PLAN`."""
    folder = tmp_path_factory.mktemp("submitter")
    suites, broken = registry.find_suites()
    smaller = {**suites, "mini": small(suites["mini"])}
    made = Published(folder / "own_rows.py", folder / "results", folder / "package.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "find_suites", lambda: (smaller, broken))
        patch.setenv("LEAKBOARD_SUBMISSIONS", "")
        written = leakboard("new", "attack", "own_rows", "--dir", folder)
        assert written.code == 0, written.err
        coarse = made.source.read_text().replace("Parameter(0.01", "Parameter(0.5")
        made.source.write_text(coarse)  # so that it misses tokens, and metrics have room both ways
        patch.setenv("LEAKBOARD_SUBMISSIONS", str(made.source))
        packed = leakboard(
            "submit", "own_rows", "--results", made.results, "--out", made.package, "--jobs", 1
        )
        assert packed.code == 0, packed.err
        yield made
