"""The panels that defenses have to face name attacks that are there and fit the objective."""

from __future__ import annotations

from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import find_suites, panel_of
from benchmark.plugins.selection import choose


def test_every_panel_names_attacks_that_apply(catalogs: tuple[Catalog, Catalog]) -> None:
    known = catalogs[0].names()
    for suite in find_suites()[0].values():
        for objective, panel in suite.panels.items():
            assert len(set(panel)) == len(panel)
            for name in panel:
                assert choose(catalogs[0], "attack", name)[0].name == name, "else no record has it"
                entry, _ = known[name.partition("[")[0]]
                assert objective in entry.objectives, f"{name} is not defined for {objective}"


def test_a_panel_has_a_baseline_and_more(catalogs: tuple[Catalog, Catalog]) -> None:
    known = catalogs[0].names()
    panels = [p for suite in find_suites()[0].values() for p in suite.panels.values()]
    assert panels
    for panel in panels:
        guessing = {known[name.partition("[")[0]][0].baseline for name in panel}
        assert guessing == {True, False}


def test_variants_of_a_task_share_its_panel() -> None:
    assert panel_of("mini/cola") == panel_of("mini/cola-b4") != ()
    assert panel_of("mini/nowhere") == ()
