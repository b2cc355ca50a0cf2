"""An attack is told what the task grants, fact by fact, and nothing more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task
from benchmark.runs.plan import Cell, Selection, plan_cells
from benchmark.runs.threat_model import Told, tell
from benchmark.snapshots import verify
from benchmark.snapshots.build import SnapshotSet
from benchmark.spec import Knowledge

SECRETS = {
    Knowledge.LABELS: "labels",
    Knowledge.LENGTHS: "lengths",
    Knowledge.NOISE_SCALE: "noise_scale",
    Knowledge.FREQUENCIES: "frequencies",
    Knowledge.TYPE_COUNT: "type_count",
}
FILES = {Knowledge.PRIOR: "prior", Knowledge.PUBLIC_TEXT: "public.json"}


@pytest.fixture(scope="module")
def attacked(
    engine: LocalEngine, catalogs: tuple[Catalog, Catalog], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Cell, SnapshotSet]:
    """A cell on noisy snapshots, so that there is a noise scale to hide."""
    folder = tmp_path_factory.mktemp("results")
    selection = Selection("mini", "cola-b2", "random", "gaussian_noise")
    (cell,) = plan_cells(selection, *catalogs, folder)
    snapshots = SnapshotSet(load_task(cell.task), cell.defense, cell.seed)
    verify.build(engine, [snapshots], force=False, memory_limit_mb=8000)
    return cell, snapshots


def told(attacked: tuple[Cell, SnapshotSet], *granted: Knowledge) -> Told:
    cell, snapshots = attacked
    task = replace(cell.task, grants=frozenset(granted))
    return tell(replace(cell, task=task), snapshots, snapshots.manifests())


def shown(knowledge: Told) -> set[str]:
    """What an attack is told beyond the update itself, by name."""
    facts = {name for s in knowledge.work.snapshots for name in SECRETS.values()
             if getattr(s, name) is not None}  # fmt: skip
    files = {name for name in FILES.values() if name in knowledge.files}
    return facts | files


def test_without_a_grant_there_are_the_model_and_the_updates_only(
    attacked: tuple[Cell, SnapshotSet],
) -> None:
    found = told(attacked)
    assert shown(found) == set()
    assert found.work.task.prior is None
    assert found.work.task.grants == frozenset()
    updates = {f"snapshots/{index:03d}" for index in attacked[1].indices}
    assert found.files.keys() == {"model"} | updates


@pytest.mark.parametrize("knowledge", Knowledge)
def test_a_grant_shows_its_own_fact_and_no_other(
    attacked: tuple[Cell, SnapshotSet], knowledge: Knowledge
) -> None:
    found = told(attacked, knowledge)
    assert shown(found) == {(SECRETS | FILES)[knowledge]}
    assert found.work.task.grants == frozenset({knowledge})


def test_no_private_word_is_in_what_an_attack_is_told(attacked: tuple[Cell, SnapshotSet]) -> None:
    """Neither in the facts nor in the names and contents of the files, whatever is granted."""
    found = told(attacked, *Knowledge)
    facts = found.work.model_dump_json()
    public = Path(found.files["public.json"]).read_text()
    for index in attacked[1].indices:
        for sentence in attacked[1].read_truth(index).sentences:
            assert sentence.text not in facts
            assert sentence.text not in public
    assert not any("truths" in path.parts for path in found.files.values())
