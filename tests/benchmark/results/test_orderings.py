"""Orderings of the papers: the test behind a verdict, and the document that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.cli.orderings import FILES, _both_sides, document, load, numbers, row
from benchmark.errors import UserError
from benchmark.metrics.table import METRICS
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import get_suite
from benchmark.plugins.selection import choose, choose_tasks
from benchmark.results.orderings import ComparedOrdering, Ordering, OrderingSide, compare_orderings
from benchmark.results.store import record_path
from tests.conftest import Command
from tests.leaderboard.samples import make_record, make_score, store


def claim(paired: bool = True) -> Ordering:
    side = OrderingSide(task="cola", attack="random")
    return Ordering(
        claim="one is better", paper="ours", metric="rouge1", better=side, worse=side, paired=paired
    )


def compared(better: list[float], worse: list[float], paired: bool = True) -> ComparedOrdering:
    values = [{(100, i): v for i, v in enumerate(side)} for side in (better, worse)]
    return compare_orderings([(claim(paired), values[0], values[1])])[0]


@pytest.mark.parametrize("paired", [True, False])
def test_a_clear_difference_holds_or_is_reversed(paired: bool) -> None:
    high, low = [0.9, 0.8, 0.95, 0.85] * 4, [0.1, 0.2, 0.15, 0.05] * 4
    assert compared(high, low, paired).verdict == "holds"
    assert compared(low, high, paired).verdict == "reversed"
    assert compared(high, low, paired).difference == pytest.approx(0.75)


def test_noise_is_not_told_apart() -> None:
    found = compared([0.1, 0.9, 0.3, 0.7] * 4, [0.9, 0.1, 0.7, 0.3] * 4)
    assert found.verdict == "not told apart"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_pairs_see_what_samples_do_not() -> None:
    """A small gain on every snapshot, however much these differ."""
    base = [i / 20 for i in range(16)]
    better = [value + 0.02 for value in base]
    assert compared(better, base).verdict == "holds"
    assert compared(better, base, paired=False).verdict == "not told apart"


def test_only_common_snapshots_count() -> None:
    better = {(100, 0): 1.0, (100, 1): 1.0, (101, 0): 0.0}
    worse = {(100, 0): 0.5, (100, 1): 0.5}
    (found,) = compare_orderings([(claim(), better, worse)])
    assert (found.snapshots, found.better, found.worse) == (2, 1.0, 0.5)


def test_what_was_not_measured_is_named_so() -> None:
    (found,) = compare_orderings([(claim(), {}, {(100, 0): 0.5})])
    assert (found.verdict, found.p_value) == ("not measured", None)


def test_many_claims_are_corrected_together() -> None:
    high, low = [0.6] * 6, [0.5] * 6
    better, worse = ({(100, i): v for i, v in enumerate(side)} for side in (high, low))
    alone = compare_orderings([(claim(), better, worse)])[0]
    several = compare_orderings([(claim(), better, worse)] * 8)[0]
    assert alone.p_value is not None
    assert several.p_value == pytest.approx(8 * alone.p_value)
    assert (alone.verdict, several.verdict) == ("holds", "not told apart")


@pytest.mark.parametrize("suite", FILES)
def test_every_stored_claim_names_what_there_is(
    suite: str, catalogs: tuple[Catalog, Catalog]
) -> None:
    claims = load(suite)
    assert len(claims) >= 12
    for stored in claims:
        assert METRICS[stored.metric].better_for_attack == "higher"
        for side in (stored.better, stored.worse):
            (task,) = choose_tasks(get_suite(suite), side.task)
            (attack,) = choose(catalogs[0], "attack", side.attack)
            assert task.objective in attack.entry.objectives
            assert len(choose(catalogs[1], "defense", side.defense)) == 1


def test_the_document_has_a_line_for_each_claim() -> None:
    rows = [row(found) for found in compare_orderings([(claim(), {}, {})] * 2)]
    lines = document(rows, "100-103").splitlines()
    assert "seeds 100 to 103" in " ".join(lines)
    assert sum(line.startswith("| one is better (ours) |") for line in lines) == 2


def test_a_range_of_seeds() -> None:
    assert list(numbers("100-103")) == [100, 101, 102, 103]
    for bad in ("100", "9-1", "a-b", ""):
        with pytest.raises(UserError, match="is no range"):
            numbers(bad)


def test_what_has_no_record_is_not_measured(leakboard: Command, tmp_path: Path) -> None:
    out = tmp_path / "orderings.md"
    done = leakboard("orderings", "--stored", "--results", tmp_path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8").count("not measured") == len(load())


def test_stored_seeds_count_where_both_sides_have_them(tmp_path: Path) -> None:
    """What was to be run and is not there has failed, and then no seed counts."""
    better, worse = (OrderingSide(task="cola", attack=attack) for attack in ("lamp", "random"))
    asked = claim().model_copy(update={"better": better, "worse": worse})
    paths = {}
    for side, attack, seeds in ((better, "lamp", (100, 101)), (worse, "random", (101,))):
        for seed in (100, 101):
            made = make_record("mini/cola", attack, seed=seed)
            paths[side.label, seed] = record_path(tmp_path, made)
            if seed in seeds:
                store(tmp_path, made, make_score({"rouge1": [0.5, 0.75]}))
    both = {(101, 0): 0.5, (101, 1): 0.75}
    assert _both_sides(asked, range(100, 102), paths, stored=True) == (both, both)
    assert _both_sides(asked, range(100, 102), paths, stored=False) == ({}, {})


def test_a_suite_without_claims_is_named(leakboard: Command, tmp_path: Path) -> None:
    done = leakboard("orderings", "--stored", "--suite", "opne", "--results", tmp_path)
    assert (done.returncode, "did you mean open" in done.stderr) == (2, True)
