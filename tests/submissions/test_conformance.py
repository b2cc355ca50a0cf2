"""One contract for every plug-in: each attack and each defense, found by the registry, is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.paths import ROOT
from benchmark.plugins.catalog import Catalog
from benchmark.results.schema import Record, Status
from tests.harness import RunCells

ATTACKS = sorted(p.stem for p in (ROOT / "submissions/attacks").glob("[!_]*.py"))
DEFENSES = sorted(p.stem for p in (ROOT / "submissions/defenses").glob("[!_]*.py"))
TASKS = ("mini/cola", "mini/wikitext", "mini/iwslt", "mini/sst2-fl")
"""One of each family, and of each objective."""
LAMP = "[steps=4,initial_candidates=8,initial_permutations=8,discrete_candidates=8]"
QUICK = {
    "flat_chat": "[batches=2]",
    "film": "[phrase_steps=2,token_steps=2,proposals=8]",
    "dlg": "[steps=4]",
    "tag": "[steps=4]",
    "lamp_cos": LAMP,
    "lamp_l2l1": LAMP,
}
"""Parameters that make a slow attack quick enough for a test."""

SILENT = {"local_only"}
"""Defenses whose clients send nothing."""


def answers(records: list[Record]) -> list[object]:
    return [(s.sentences, s.token_types) for record in records for s in record.snapshots]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_keeps_the_contract(
    attack: str, run_cells: RunCells, catalogs: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    """Every family is answered or refused with a reason, and the same seed answers the same."""
    entry = catalogs[0].entries[attack]
    assert entry.name == attack, "an attack's file is named after it"
    assert entry.summary.endswith(".")
    done = {t: run_cells(attack + QUICK.get(attack, ""), task=t, results=tmp_path / "1")[0]
            for t in TASKS}  # fmt: skip
    for task, record in done.items():
        assert record.status in (Status.OK, Status.UNSUPPORTED), f"{task}: {record.reason}"
        assert record.reason or record.status is Status.OK
    worked = [task for task, record in done.items() if record.status is Status.OK]
    assert worked, f"{attack} works on no family at all"
    again = run_cells(attack + QUICK.get(attack, ""), task=worked[0], results=tmp_path / "2")
    assert answers(again) == answers([done[worked[0]]])


@pytest.mark.parametrize("defense", DEFENSES)
def test_a_defense_keeps_the_contract(
    defense: str, run_cells: RunCells, catalogs: tuple[Catalog, Catalog]
) -> None:
    assert catalogs[1].entries[defense].name == defense, "a defense's file is named after it"
    for task in TASKS:
        record = run_cells("random", task=task, defense=defense)[0]
        if defense in SILENT:
            assert (record.status, record.reason[:14]) == (Status.UNSUPPORTED, "nothing leaves")
            continue
        assert record.status is Status.OK, f"{task}: {record.reason}"
        assert record.bytes_up is not None
        assert record.bytes_up > 0
