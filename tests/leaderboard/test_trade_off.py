"""Worst cases and the privacy-utility trade-off: which attack counts, where a defense stands."""

from __future__ import annotations

from pathlib import Path

from benchmark.results.schema import Status, WorstCase
from benchmark.results.store import WORST_CASE_FILE, record_files
from benchmark.results.utility_summary import UtilityCost
from benchmark.results.worst_case import worst_case, worst_cases, write_worst_cases
from leaderboard.data.catalog import Catalog, SuiteRow, TaskRow
from leaderboard.render.pages import render_pages
from leaderboard.views.board import Leaderboard
from leaderboard.views.trade_off import trade_off
from tests.leaderboard.samples import HOSTILE, make_record, make_score, make_value, store

TASK = TaskRow(
    "s/wiki", "language-modeling", "Reads.", utility=("perplexity",), trained_as="s/wiki"
)


def leak(defense: str, level: float, attack: str = "dager") -> WorstCase:
    record = make_record("s/wiki", attack, defense)
    return worst_case([(record, make_score({"rougeL": [level] * 8, "type_f1": [level] * 8}))])


def cost(defense: str, perplexity: float, seconds: float = 0.1) -> UtilityCost:
    metrics = {
        "perplexity": make_value([perplexity]).model_copy(update={"high": perplexity}),
        "step_seconds": make_value([seconds]),
    }
    return UtilityCost(
        "s/wiki", defense, metrics, 3.5 if defense == "dpsgd" else None, Status.OK, ""
    )


LEAKS = {
    ("s/wiki", name): leak(name, level)
    for name, level in (("none", 1.0), ("prune", 0.5), ("dpsgd", 0.0))
}
PRICES = {
    ("s/wiki", name): cost(name, value, seconds)
    for name, value, seconds in (("none", 10.0, 0.1), ("prune", 20.0, 0.2), ("dpsgd", 40.0, 0.4))
}


def test_the_worst_attack_counts_whoever_it_is() -> None:
    scored = [
        (make_record("s/wiki", name), make_score({"rougeL": [level] * 8, "type_count_error": [9]}))
        for name, level in (("prior_only", 0.2), ("dager", 0.9), ("film", 0.4))
    ]
    worst = worst_case(scored).worst
    assert set(worst) == {"rougeL"}, "an error of a count is no leak"
    assert (worst["rougeL"].attack, worst["rougeL"].rivals) == ("dager", 3)


def test_only_the_newest_version_of_a_task_counts() -> None:
    old = (make_record("s/wiki", "film"), make_score({"rougeL": [0.9] * 8}))
    new = (make_record("s/wiki", "film", version=2), make_score({"rougeL": [0.3] * 8}))
    found = worst_case([old, new])
    assert (found.task_version, found.worst["rougeL"].value.mean) == (2, 0.3)


def test_leaks_are_written_beside_the_records_and_follow_the_scores(tmp_path: Path) -> None:
    store(tmp_path, make_record("s/wiki", "film"), make_score({"rougeL": [0.4] * 8}))
    write_worst_cases(tmp_path)
    assert worst_cases(tmp_path)["s/wiki", "none"].worst["rougeL"].attack == "film"
    path = store(tmp_path, make_record("s/wiki", "dager"), make_score({"rougeL": [0.6] * 8}))
    write_worst_cases(tmp_path)
    assert worst_cases(tmp_path)["s/wiki", "none"].worst["rougeL"].attack == "dager"
    assert all(file.name != WORST_CASE_FILE for file in record_files(tmp_path))
    path.write_text(path.read_text() + " ")  # the score is of an older record now
    write_worst_cases(tmp_path)
    assert worst_cases(tmp_path)["s/wiki", "none"].worst["rougeL"].attack == "film"


def test_better_utility_is_further_right_and_less_leak_further_down() -> None:
    drawn = trade_off(TASK, LEAKS, PRICES)
    assert drawn is not None
    assert [point.defense for point in drawn.points] == ["none", "dpsgd", "prune"]
    plain, private, pruned = drawn.points
    assert private.x < pruned.x < plain.x, "a higher perplexity is worse"
    assert abs((plain.x + private.x) / 2 - pruned.x) < 0.1, "10, 20, 40 on a log scale"
    assert private.y > pruned.y > plain.y, "counted from above"
    assert (plain.slowdown, round(private.slowdown or 0, 6)) == (1.0, 4.0)
    assert [label for _, label in drawn.ticks] == ["10.0", "20.0", "40.0"]


def test_a_variant_takes_the_price_of_the_task_that_trains_for_it() -> None:
    variant = TaskRow("s/wiki-b4", TASK.family, "", utility=TASK.utility, trained_as="s/wiki")
    moved = {("s/wiki-b4", name): value for (_, name), value in LEAKS.items()}
    assert trade_off(variant, moved, PRICES) is not None
    assert trade_off(variant, LEAKS, PRICES) is None, "its own leaks are not there"


def test_one_defense_alone_is_nothing_to_compare() -> None:
    assert trade_off(TASK, LEAKS, {("s/wiki", "none"): cost("none", 10.0)}) is None
    failed = UtilityCost("s/wiki", "prune", {}, None, Status.ERROR, "diverged")
    both = {("s/wiki", "none"): cost("none", 9.0), ("s/wiki", "prune"): failed}
    assert trade_off(TASK, LEAKS, both) is None


def test_the_pages_show_the_plane_and_escape_what_they_show() -> None:
    named = LEAKS | {("s/wiki", "prune"): leak("prune", 0.5, HOSTILE)}
    catalog = Catalog((SuiteRow("s", "Samples."),), (TASK,))
    pages = render_pages(Leaderboard((), catalog, named, PRICES))
    for page in ("index.html", next(name for name in pages if "wiki" in name)):
        assert "Privacy against utility" in pages[page]
        assert 'class="trade_off"' in pages[page]
        assert HOSTILE not in pages[page]
