"""An attack is told what it declares and the task grants, fact by fact, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.results.schema import Record
from benchmark.runs.attack_run import Run
from benchmark.runs.compatibility import incompatibility_with_task
from benchmark.runs.plan import Cell, Selection, plan_cells
from benchmark.runs.threat_model import Told, tell
from benchmark.snapshots import verify
from benchmark.snapshots.build import SnapshotSet
from benchmark.spec import Knowledge
from tests.harness import Quiet, RunCells

SECRETS = {
    Knowledge.LABELS: "labels",
    Knowledge.LENGTHS: "lengths",
    Knowledge.NOISE_SCALE: "noise_scale",
    Knowledge.FREQUENCIES: "frequencies",
    Knowledge.TYPE_COUNT: "type_count",
}
FILES = {
    Knowledge.PRIOR: "prior",
    Knowledge.PUBLIC_TEXT: "public.json",
    Knowledge.PUBLIC_TABLE: "table.safetensors",
}


@pytest.fixture(scope="module")
def attacked(
    engine: LocalEngine, catalogs: tuple[Catalog, Catalog], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Cell, SnapshotSet]:
    """A cell on noisy snapshots, so that there is a noise scale to hide."""
    folder = tmp_path_factory.mktemp("results")
    selection = Selection("mini", "cola-b2", "witness_of_all", "gaussian_noise")
    (cell,) = plan_cells(selection, *catalogs, folder)
    cell = replace(cell, task=replace(cell.task, snapshots=1))
    snapshots = SnapshotSet(load_task(cell.task), cell.defense, cell.seed)
    verify.build(engine, [snapshots], force=False, memory_limit_mb=8000)
    return cell, snapshots


def with_knowledge(cell: Cell, granted: Collection[str], declared: Collection[str]) -> Cell:
    """The cell where the task grants something else, and the attack declares something else."""
    settings = {fact.replace("-", "_"): True for fact in declared}
    attack = replace(cell.attack, parameters=settings)
    task = replace(cell.task, grants=frozenset(map(Knowledge, granted)))
    return replace(cell, task=task, attack=attack)


def told(
    attacked: tuple[Cell, SnapshotSet],
    *granted: Knowledge,
    declared: Collection[Knowledge] = tuple(Knowledge),
) -> Told:
    cell, snapshots = attacked
    return tell(with_knowledge(cell, granted, declared), snapshots, snapshots.manifests())


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


# ----------------------------------------------------------------------- what it does not declare


@pytest.mark.parametrize("knowledge", Knowledge)
def test_of_everything_granted_an_attack_is_told_what_it_declares(
    attacked: tuple[Cell, SnapshotSet], knowledge: Knowledge
) -> None:
    found = told(attacked, *Knowledge, declared=[knowledge])
    assert shown(found) == {(SECRETS | FILES)[knowledge]}
    assert found.work.task.grants == frozenset({knowledge})
    assert found.work.task.prior == ("file" if knowledge is Knowledge.PRIOR else None)


@pytest.mark.parametrize("missing", [*Knowledge, None])
def test_what_an_attack_does_not_declare_is_not_in_its_worker(
    attacked: tuple[Cell, SnapshotSet], engine: LocalEngine, tmp_path: Path, missing: str | None
) -> None:
    """An attack that declares all but one piece of knowledge looks for that one, in the sandbox."""
    declared = {str(fact) for fact in Knowledge if fact != missing}
    cell = with_knowledge(attacked[0], list(Knowledge), declared)
    cell = replace(cell, path=tmp_path / "record.json")
    (record,) = Run(engine, Quiet(), 60.0, 8000.0, "cpu").run([cell])
    seen = json.loads(record.snapshots[0].note)
    files = {"model", "snapshots", *(FILES[f] for f in FILES if f in declared)}
    assert set(seen["observed"]) == set(seen["granted"]) == declared
    assert {fact.replace("_", "-") for fact in seen["in the job"]} == declared
    assert set(seen["files"]) == files
    assert record.told == sorted(declared)


def test_what_is_declared_and_not_granted_is_not_told_and_not_needed(
    attacked: tuple[Cell, SnapshotSet],
) -> None:
    cell = with_knowledge(attacked[0], [Knowledge.LABELS], list(Knowledge))
    assert cell.told == {Knowledge.LABELS}
    assert incompatibility_with_task(cell) is None


def test_a_setting_that_does_without_knowledge_is_not_told_it(
    catalogs: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    """LAMP without its language model has no prior, however much the task grants."""
    names = "lamp_cos,lamp_cos_no_lm,film,film_oracle_frequency,rlg"
    cells = plan_cells(Selection("mini", "cola", names), *catalogs, tmp_path)
    lamp, bare, film, oracle, labels = cells
    assert Knowledge.PRIOR in lamp.told
    assert bare.told == lamp.told - {Knowledge.PRIOR}
    assert labels.told == frozenset()
    assert film.attack.entry.needed(film.attack.parameters) == frozenset()
    assert oracle.attack.entry.needed(oracle.attack.parameters) == {Knowledge.FREQUENCIES}


def test_only_oracle_tasks_grant_what_no_update_shows() -> None:
    oracles = {Knowledge.FREQUENCIES, Knowledge.TYPE_COUNT}
    for name, task in all_tasks().items():
        assert bool(oracles & task.grants) == name.endswith("-oracle"), name


@pytest.mark.parametrize("attack", ["flat_chat_oracle", "film_oracle_frequency"])
def test_oracle_attacks_are_told_on_oracle_tasks_alone(
    catalogs: tuple[Catalog, Catalog], tmp_path: Path, attack: str
) -> None:
    pattern = "iwslt,iwslt-oracle" if attack.startswith("flat") else "wikitext,wikitext-oracle"
    plain, oracle = plan_cells(Selection("mini", pattern, attack), *catalogs, tmp_path)
    assert "which mini/" in (incompatibility_with_task(plain) or "")
    assert incompatibility_with_task(oracle) is None
    batches = [load_task(cell.task).private_batch(0, 0).truth for cell in (plain, oracle)]
    assert batches[0] == batches[1]  # so the oracle can be compared with what does without it


def test_a_fingerprint_depends_on_what_is_told(
    catalogs: tuple[Catalog, Catalog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint() -> str:
        (cell,) = plan_cells(Selection("mini", "cola", "random"), *catalogs, tmp_path)
        return cell.fingerprint

    before = fingerprint()
    entry = catalogs[0].entries["random"]
    monkeypatch.setitem(catalogs[0].entries, "random", replace(entry, uses=()))
    assert fingerprint() != before


def test_records_say_what_was_told(run_cells: RunCells) -> None:
    told_of: dict[str, Record] = {r.attack_name: r for r in run_cells("random,bag_of_words")}
    assert told_of["random"].told == ["lengths", "public-text"]
    assert told_of["bag_of_words"].told == ["noise-scale"]
