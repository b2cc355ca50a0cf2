"""Plans: the suite's own, what a user asks for, and what happens when a plug-in is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark import planning, registry
from benchmark.errors import UserError
from benchmark.planning import Selection
from benchmark.registry import Broken, Catalogue
from tests.harness import RunCells

Catalogues = tuple[Catalogue, Catalogue]


def test_the_default_plan_has_every_floor_wherever_it_attacks(
    catalogues: Catalogues, tmp_path: Path
) -> None:
    """Which is everywhere but on some large batches."""
    cells = planning.plan(Selection("mini"), *catalogues, tmp_path)
    planned = {(cell.task.name, cell.attack.name) for cell in cells}
    names = {cell.task.name for cell in cells}
    left_out = {task.name for task in registry.suite("mini").tasks} - names
    assert all(
        name.endswith(("-b8", "-b16", "-b32", "-b64", "-b128", "-t1500")) for name in left_out
    )
    for floor in ("random", "prior_only", "bag_of_words"):
        assert {(name, floor) for name in names} <= planned
    assert len({cell.path for cell in cells}) == len(cells)
    assert "spy" not in {cell.attack.name for cell in cells}


def test_a_broken_plugin_leaves_the_rest_of_the_plan(
    catalogues: Catalogues, tmp_path: Path
) -> None:
    entries = {name: entry for name, entry in catalogues[0].entries.items() if name != "random"}
    broken = Catalogue(entries, [Broken("attack", "submissions/attacks/random.py", "SyntaxError")])
    cells = planning.plan(Selection("mini", "cola"), broken, catalogues[1], tmp_path)
    assert {cell.attack.name for cell in cells} >= {"prior_only", "bag_of_words"}
    with pytest.raises(UserError, match="is broken: SyntaxError"):
        planning.plan(Selection("mini", "cola", "random"), broken, catalogues[1], tmp_path)


def test_a_change_of_anything_that_matters_makes_a_cell_stale(
    catalogues: Catalogues, tmp_path: Path
) -> None:
    def fingerprint(seed: int = 0, **changes: object) -> str:
        random = replace(catalogues[0].entries["random"], **changes)  # type: ignore[arg-type]
        attacks = Catalogue({"random": random})
        selection = Selection("mini", "cola", "random", seed=seed)
        return planning.plan(selection, attacks, catalogues[1], tmp_path)[0].fingerprint

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint(seed=1), fingerprint(digest="other")}) == 3


def test_a_variant_is_asked_for_by_its_name(
    plugins: Path, run_cells: RunCells, catalogues: Catalogues, tmp_path: Path
) -> None:
    def names(pattern: str) -> list[str]:
        selection = Selection("mini", "cola", pattern)
        return [cell.attack.name for cell in planning.plan(selection, *catalogues, tmp_path)]

    assert names("manner*") == ["manner", "manner_silent"]
    assert names("manner[count=0]") == ["manner_silent"]  # the same thing has one name
    assert names("manner_silent[token=7]") == ["manner[count=0,token=7]"]
    several = names("random,manner[count=2,token=7],manner_s*")
    assert several == ["random", "manner[count=2,token=7]", "manner_silent"]
    tasks = planning.choose_tasks(registry.suite("mini"), "sst2,mini/cola,cola-b*")
    assert [t.name for t in tasks] == [
        f"mini/{n}" for n in ("cola", "cola-b2", "cola-b4", "cola-b8", "sst2")
    ]
    with pytest.raises(UserError, match="did you mean manner_silent"):
        names("manner_silence")
    (record,) = run_cells("manner_silent", task="mini/cola")
    assert (record.attack, record.attack_variant) == ("manner", "manner_silent")
    assert record.attack_parameters == {"count": 0}


def test_every_task_has_a_unique_name_of_its_suite() -> None:
    for suite in registry.suites()[0].values():
        names = [task.name for task in suite.tasks]
        assert len(set(names)) == len(names)
        assert all(name.startswith(f"{suite.name}/") for name in names)
        assert all(task.snapshots >= 8 for task in suite.tasks if suite.name == "mini")
    assert registry.suites()[1] == ()
