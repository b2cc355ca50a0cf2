"""The privacy-utility trade-off: where a defense stands, and which may be on the Pareto front."""

from __future__ import annotations

from dataclasses import replace

from benchmark.results.schema import Status
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import Catalog, SuiteRow, TaskRow
from leaderboard.data.defenses import DefenseBoard, defense_boards, worst_cases_of
from leaderboard.data.ranking import Row, boards
from leaderboard.render.pages import render_pages
from leaderboard.views.board import Leaderboard
from leaderboard.views.trade_off import TradeOff, trade_offs
from tests.leaderboard.samples import HOSTILE, make_record, make_score, make_value

TASK = TaskRow(
    "s/wiki",
    "language-modeling",
    "Reads.",
    utility=("perplexity",),
    trained_as="s/wiki",
    trained_batch=16,
    panel=("dager",),
)
LARGER = replace(TASK, name="s/wiki-b16", batch_size=16)
LEVELS = (("none", 1.0), ("prune", 0.5), ("dpsgd", 0.0))


def rows(
    task: str = "s/wiki",
    attack: str = "dager",
    levels: tuple[tuple[str, float], ...] = LEVELS,
    seed: int = 0,
) -> list[Row]:
    """What an attack reaches under several defenses."""
    return [
        Row(
            make_record(task, attack, defense, seed=seed),
            make_score({"rougeL": [level] * 8, "type_f1": [level] * 8}),
        )
        for defense, level in levels
    ]


def ranked(given: list[Row], panel: tuple[str, ...] = ("dager",)) -> tuple[DefenseBoard, ...]:
    made = boards(given, {})
    return defense_boards(worst_cases_of(made, {row.task: panel for row in given}), "rougeL")


def cost(defense: str, perplexity: float, seconds: float = 0.1) -> UtilityCost:
    metrics = {
        "perplexity": make_value([perplexity]),
        "step_seconds": make_value([seconds]),
    }
    epsilon = 3.5 if defense == "dpsgd" else None
    return UtilityCost("s/wiki", defense, metrics, epsilon, Status.OK, "", (0, 1, 2))


COSTS = {
    ("s/wiki", name): cost(name, value, seconds)
    for name, value, seconds in (("none", 10.0, 0.1), ("prune", 20.0, 0.2), ("dpsgd", 40.0, 0.4))
}


def only(found: tuple[TradeOff, ...]) -> TradeOff:
    (drawn,) = found
    return drawn


def test_points_carry_what_is_left_and_what_it_costs() -> None:
    drawn = only(trade_offs(TASK, ranked(rows()), COSTS))
    assert [point.defense for point in drawn.points] == ["none", "dpsgd", "prune"]
    plain, private, pruned = drawn.points
    assert [point.utility.mean for point in (plain, pruned, private)] == [10.0, 20.0, 40.0]
    assert [point.leak.value.mean for point in (plain, pruned, private)] == [1.0, 0.5, 0.0]
    assert (plain.slowdown, round(private.slowdown or 0, 6)) == (1.0, 4.0)
    assert (drawn.seed, drawn.training_seeds, drawn.panel) == (0, (0, 1, 2), ("dager",))
    assert [point.defense for point in drawn.front] == ["dpsgd", "prune", "none"]


def test_what_is_dominated_is_not_on_the_front() -> None:
    worse = COSTS | {("s/wiki", "mask"): cost("mask", 30.0)}
    given = rows(levels=(*LEVELS, ("mask", 0.6)))
    drawn = only(trade_offs(TASK, ranked(given), worse))
    front = {point.defense for point in drawn.points if point.front}
    assert front == {"none", "prune", "dpsgd"}, "prune leaves less than mask at more utility"


def test_an_incomplete_panel_is_never_on_the_front_and_hides_nobody() -> None:
    """`easy` would dominate everything, had it faced more than one attack that found nothing."""
    easy = rows(attack="film", levels=(("easy", 0.0),))
    costs = COSTS | {("s/wiki", "easy"): cost("easy", 5.0)}
    drawn = only(trade_offs(TASK, ranked([*rows(), *easy]), costs))
    points = {point.defense: point for point in drawn.points}
    assert not points["easy"].complete
    assert [member.attack for member in points["easy"].lacking] == ["dager"]
    assert {name for name, point in points.items() if point.front} == {"none", "prune", "dpsgd"}


def test_a_variant_takes_the_cost_of_the_task_that_trains_for_it() -> None:
    assert trade_offs(LARGER, ranked(rows("s/wiki-b16")), COSTS)
    assert not trade_offs(LARGER, ranked(rows()), COSTS), "its own worst cases are not there"


def test_seeds_are_plots_of_their_own() -> None:
    two = ranked([*rows(), *rows(levels=LEVELS[:2], seed=7)])
    assert [(each.seed, len(each.points)) for each in trade_offs(TASK, two, COSTS)] == [
        (0, 3),
        (7, 2),
    ]


def test_one_defense_alone_is_nothing_to_compare() -> None:
    assert not trade_offs(TASK, ranked(rows()), {("s/wiki", "none"): cost("none", 10.0)})
    failed = UtilityCost("s/wiki", "prune", {}, None, Status.ERROR, "diverged")
    both = {("s/wiki", "none"): cost("none", 9.0), ("s/wiki", "prune"): failed}
    assert not trade_offs(TASK, ranked(rows()), both)


def test_the_pages_show_the_trade_off_and_escape_what_they_show() -> None:
    given = [*rows(), *rows(attack=HOSTILE, levels=(("prune", 0.7),))]
    catalog = Catalog((SuiteRow("s", "Samples."),), (replace(TASK, panel=("dager", HOSTILE)),))
    pages = render_pages(Leaderboard(tuple(given), catalog, COSTS))
    for page in ("index.html", "tasks/s.wiki.html"):
        assert "rivacy against utility" in pages[page]
        assert '<svg xmlns="http://www.w3.org/2000/svg"' in pages[page]
        assert HOSTILE not in pages[page]
    assert "Attacked at batch 1; trains at 16." in pages["tasks/s.wiki.html"]
    assert "Seed 0; utility over training seeds 0, 1, 2." in pages["tasks/s.wiki.html"]
