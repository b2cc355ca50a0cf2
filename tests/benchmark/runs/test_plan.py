"""Plans: the suite's own, what a user asks for, and what happens when a plug-in is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import Broken, find_suites, get_suite, load_task, panel_of
from benchmark.plugins.selection import broken_among, choose_tasks
from benchmark.results.scoring import score_all
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Selection, groups, plan_cells
from benchmark.runs.utility_plan import plan_utility
from tasks.suites.mini import plan
from tests.harness import Quiet, RunCells

Catalogues = tuple[Catalog, Catalog]


def test_the_default_plan_has_a_baseline_wherever_it_attacks(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    attacked = {(cell.task.name, cell.defense.name) for cell in cells}
    guessed = {(cell.task.name, cell.defense.name) for cell in cells if cell.attack.entry.baseline}
    assert attacked == guessed
    assert len({cell.path for cell in cells}) == len(cells)
    assert "spy" not in {cell.attack.name for cell in cells}
    assert all(cell.task.snapshots >= 16 for cell in cells)


def test_every_strength_of_a_defense_faces_the_whole_panel(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    families = {
        "mini/cola": ("gaussian_noise", "prune"),
        "mini/wikitext-pretrained": (),
        "mini/iwslt-finetuned": ("dpsgd",),
    }
    for task, three in families.items():
        faced: dict[str, set[str]] = {}
        for cell in cells:
            if cell.task.name == task:
                faced.setdefault(cell.defense.name, set()).add(cell.attack.name)
        panel = set(panel_of(task))
        assert all(panel <= attacks for attacks in faced.values())
        for family in three:
            strengths = [n for n in faced if n.partition("[")[0] == family and "+" not in n]
            assert len(strengths) == 3
        if not three:
            assert any("+" in name for name in faced)
            assert {"freeze_embeddings", "freeze_both"} <= set(faced)


def test_utility_is_attacked_at_its_own_batch_size(catalogs: Catalogues, tmp_path: Path) -> None:
    """For each objective there is a task with the batch size of its training, under defenses."""
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    matching = {
        cell.task.objective
        for cell in cells
        if cell.task.training
        and cell.task.batch_size == cell.task.training.batch_size
        and cell.defense.name != "none"
    }
    assert matching == set(plan.PANELS)


def test_the_plan_goes_where_attacks_differ(catalogs: Catalogues, tmp_path: Path) -> None:
    """Batches with more tokens than the model is wide, dropout, local steps, papers' variants."""
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    tasks = {cell.task.name: cell.task for cell in cells}
    tokens = {t.batch_size * t.min_tokens for t in tasks.values() if t.family == "classification"}
    widths = {load_task(tasks["mini/cola"]).form.shapes["bert.pooler.dense.bias"][0]}
    assert max(tokens) >= 0.75 * max(widths)
    assert any(task.mode == "train" for task in tasks.values())
    assert any(task.local_steps > 1 for task in tasks.values())
    assert {"flat_chat_paper", "dager_paper"} <= {cell.attack.name for cell in cells}
    undefended = [c for c in cells if c.defense.name == "none" and c.attack.name == "dager"]
    assert len(undefended) <= len(plan.PANELS)  # what is read exactly ranks nothing


def test_every_task_of_the_plan_has_text_for_its_snapshots(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    large = {c.task.name: c.task for c in cells if c.task.batch_size > 4 or c.task.batch_tokens}
    assert len(large) > 8
    for task in large.values():
        assert load_task(task).private_batch(task.snapshots - 1, 100).lengths


def test_the_first_cells_already_compare_attacks(catalogs: Catalogues, tmp_path: Path) -> None:
    """The page that is drawn after two minutes has a contest on its first task."""
    cells = plan_cells(Selection("mini"), *catalogs, tmp_path)
    (group, first), *_ = groups(cells).items()
    assert group[:2] == ("mini/cola", "none")
    assert len([cell for cell in first if not cell.attack.entry.baseline]) >= 5


def test_each_seed_of_a_plan_attacks_snapshots_of_its_own(
    engine: LocalEngine, catalogs: Catalogues, tmp_path: Path, few_snapshots: None
) -> None:
    cells = [
        cell
        for seed in (100, 101)
        for cell in plan_cells(
            Selection("mini", "cola", "random", "none", seed), *catalogs, tmp_path
        )
    ]
    first, second = Run(engine, Quiet(), 60, 2000, "cpu").run(cells)
    assert {s.digest for s in first.snapshots}.isdisjoint(s.digest for s in second.snapshots)
    assert [scored.outcome for scored in score_all(tmp_path)] == ["scored", "scored"]


def test_a_broken_plugin_leaves_the_rest_of_the_plan(catalogs: Catalogues, tmp_path: Path) -> None:
    entries = {name: entry for name, entry in catalogs[0].entries.items() if name != "random"}
    broken = Catalog(entries, [Broken("attack", "submissions/attacks/random.py", "SyntaxError")])
    cells = plan_cells(Selection("mini", "cola"), broken, catalogs[1], tmp_path)
    assert {cell.attack.name for cell in cells} >= {"prior_only", "bag_of_words"}
    with pytest.raises(UserError, match="is broken: SyntaxError"):
        plan_cells(Selection("mini", "cola", "random"), broken, catalogs[1], tmp_path)
    beside = plan_cells(
        Selection("mini", "cola", "random,prior_only"), broken, catalogs[1], tmp_path
    )
    assert [cell.attack.name for cell in beside] == ["prior_only"]


def test_a_broken_defense_leaves_the_rest_of_the_trainings(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    entries = {name: entry for name, entry in catalogs[1].entries.items() if name != "prune"}
    broken = Catalog(entries, [Broken("defense", "submissions/defenses/prune.py", "SyntaxError")])
    trials = plan_utility(Selection("mini"), broken, tmp_path)
    assert {trial.defense.name for trial in trials} >= {"none", "dpsgd[epsilon=8.0]"}
    both = plan_utility(Selection("mini", "cola", None, "prune,none"), broken, tmp_path)
    assert {trial.defense.name for trial in both} == {"none"}
    with pytest.raises(UserError, match="is broken: SyntaxError"):
        plan_utility(Selection("mini", "cola", None, "prune"), broken, tmp_path)


def test_only_what_was_asked_for_can_be_broken() -> None:
    items = [Broken("attack", f"submissions/attacks/{name}.py", "why") for name in ("lamp", "film")]
    catalog = Catalog({}, items)
    assert broken_among(catalog, None) == items
    assert broken_among(catalog, "lamp_quick[steps=2],random") == items[:1]
    assert broken_among(catalog, "f*,random") == items[1:]
    assert broken_among(catalog, "random") == []


def test_a_change_of_anything_that_matters_makes_a_cell_stale(
    catalogs: Catalogues, tmp_path: Path
) -> None:
    def fingerprint(seed: int = 0, **changes: object) -> str:
        random = replace(catalogs[0].entries["random"], **changes)  # type: ignore[arg-type]
        attacks = Catalog({"random": random})
        selection = Selection("mini", "cola", "random", seed=seed)
        return plan_cells(selection, attacks, catalogs[1], tmp_path)[0].fingerprint

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint(seed=1), fingerprint(digest="other")}) == 3


def test_a_variant_is_asked_for_by_its_name(
    plugins: Path, run_cells: RunCells, catalogs: Catalogues, tmp_path: Path
) -> None:
    def names(pattern: str) -> list[str]:
        selection = Selection("mini", "cola", pattern)
        return [cell.attack.name for cell in plan_cells(selection, *catalogs, tmp_path)]

    assert names("manner*") == ["manner", "manner_silent"]
    assert names("manner[count=0]") == ["manner_silent"]  # the same thing has one name
    assert names("manner_silent[token=7]") == ["manner[count=0,token=7]"]
    several = names("random,manner[count=2,token=7],manner_s*")
    assert several == ["random", "manner[count=2,token=7]", "manner_silent"]
    tasks = choose_tasks(get_suite("mini"), "sst2,mini/cola,cola-b*")
    assert [t.name for t in tasks] == [
        f"mini/{n}" for n in ("cola", "cola-b2", "cola-b4", "cola-b8", "cola-b16", "sst2")
    ]
    with pytest.raises(UserError, match="did you mean manner_silent"):
        names("manner_silence")
    (record,) = run_cells("manner_silent", task="mini/cola")
    assert (record.attack, record.attack_variant) == ("manner", "manner_silent")
    assert record.attack_parameters == {"count": 0}


def test_every_task_has_a_unique_name_of_its_suite() -> None:
    for suite in find_suites()[0].values():
        names = [task.name for task in suite.tasks]
        assert len(set(names)) == len(names)
        assert all(name.startswith(f"{suite.name}/") for name in names)
        assert all(task.snapshots >= 6 for task in suite.tasks if suite.name == "mini")
    assert find_suites()[1] == ()
