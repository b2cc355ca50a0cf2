"""No finding without numbers behind it: each sentence, and when it is not told."""

from __future__ import annotations

from dataclasses import replace

from benchmark.results.measure import summary
from benchmark.results.schema import Status
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import defense_boards, worst_cases_of
from leaderboard.data.ranking import boards
from leaderboard.data.rows import Row
from leaderboard.render.slugs import cell_page
from leaderboard.views import findings
from leaderboard.views.attacks import attack_panels
from leaderboard.views.defended import DefendedTask, defended_tasks
from leaderboard.views.federated import FederatedTable, Leak, Method
from leaderboard.views.series import batch_series
from tests.leaderboard.samples import BASELINES, make_record, make_score, make_snapshots, make_value

COLA = TaskRow("s/cola", "classification", "", utility=("mcc",), trained_as="s/cola", panel=("a",))


def row(
    task: str, attack: str, level: float, defense: str = "none", types: float | None = None
) -> Row:
    """A scored row whose snapshots are all worth `level`, or `types` by their tokens."""
    record = make_record(task, attack, defense, snapshots=make_snapshots(16))
    metrics = {name: [level] * 16 for name in ("rougeL", "type_f1", "exact_match")}
    metrics["type_f1"] = [level if types is None else types] * 16
    return Row(record, make_score(metrics), baseline=attack in BASELINES)


def defended(
    levels: dict[str, float], utility: dict[str, float], types: float | None = None
) -> tuple[DefendedTask, ...]:
    return defended_in({"s/cola": (levels, utility)}, types)


def defended_in(
    measured: dict[str, tuple[dict[str, float], dict[str, float]]], types: float | None = None
) -> tuple[DefendedTask, ...]:
    """What an attack reads under each defense, and the utility of some, by task."""
    rows = [
        row(task, "a", level, defense, types)
        for task, (levels, _) in measured.items()
        for defense, level in levels.items()
    ]
    cases = worst_cases_of(boards(rows, {}), dict.fromkeys(measured, ("a",)))
    costs = {
        (task, name): UtilityCost(
            task, name, {"mcc": make_value([value])}, None, Status.OK, "", (0,)
        )
        for task, (_, utility) in measured.items()
        for name, value in utility.items()
    }
    tasks = [replace(COLA, name=task, trained_as=task) for task in measured]
    return defended_tasks(tasks, defense_boards(cases, "rougeL"), costs)


def test_the_fullest_trade_off_is_shown_first() -> None:
    many = {"none": 1.0, "prune": 0.5, "mask": 0.6, "noise": 0.1}
    few = {"none": 1.0, "prune": 0.5, "noise": 0.1}
    trained = {"none": 0.9, "noise": 0.2}
    shown = defended_in({"s/many": (many, trained), "s/few": (few, trained | {"prune": 0.8})})
    assert [(each.task.name, each.drawn) for each in shown] == [("s/few", 3), ("s/many", 2)]


def test_the_best_undefended_reading_is_told_with_its_cell() -> None:
    strong = row("s/cola", "a", 0.9)
    found = findings.undefended(boards([strong, row("s/cola", "random", 0.1)], {}))
    assert found is not None
    assert "a reads back ROUGE-L 0.900" in found.sentence
    assert "90% of the sentences token for token" in found.sentence
    assert "the best guess without the gradient reaches 0.100" in found.sentence
    assert found.link == cell_page(strong.key)


def test_what_a_baseline_reaches_as_well_is_no_reading() -> None:
    level = [row("s/cola", "a", 0.4), row("s/cola", "random", 0.4)]
    assert findings.undefended(boards(level, {})) is None


def test_attacks_break_only_beyond_their_intervals() -> None:
    tasks = [
        TaskRow("s/cola", "classification", ""),
        TaskRow("s/cola-b8", "classification", "", batch_size=8),
    ]
    for last, told in ((0.2, True), (0.9, False)):
        made = boards([row("s/cola", "a", 0.95), row("s/cola-b8", "a", last)], {})
        found = findings.breaks(batch_series(tasks, made))
        assert (found is not None) == told
        if found:
            assert (
                "on cola the strongest falls from ROUGE-L 0.950 at 1 sentence to 0.200 at 8"
                in found.sentence
            )
            assert found.link == "#batch"
    guesses = [row(task.name, "random", 0.3) for task in tasks]
    beside = boards([row("s/cola", "a", 0.95), row("s/cola-b8", "a", 0.2), *guesses], {})
    found = findings.breaks(batch_series(tasks, beside))
    assert found is not None
    assert found.sentence.endswith("to 0.200 at 8, where a guess has 0.300.")


LEVELS = {"none": 0.9, "prune": 0.9, "noise": 0.5, "dpsgd": 0.1}
UTILITY = {"none": 0.5, "prune": 0.5, "noise": 0.49, "dpsgd": 0.2}


def test_the_defense_that_leaves_least_is_told_at_its_utility() -> None:
    found = findings.least_left(defended(LEVELS, UTILITY))
    assert found is not None
    assert (
        "On cola, dpsgd leaves least of all 3 defenses: ROUGE-L 0.100 by a instead of 0.900"
        in found.sentence
    )
    assert "Matthews correlation 0.200 (undefended 0.500)" in found.sentence
    assert found.link == "tasks/s.cola.html#defenses"
    assert "tokens" not in found.sentence
    several = findings.least_left(defended(LEVELS, UTILITY, types=0.9))
    assert several is not None
    assert several.sentence.endswith("; a still reads its tokens, type F1 0.900.")


def test_nothing_leaves_least_where_no_defense_does_as_well() -> None:
    assert findings.least_left(defended({"none": 0.2, "prune": 0.2}, UTILITY)) is None


def test_a_cheap_defense_keeps_utility_and_leaves_less() -> None:
    found = findings.cheap(defended(LEVELS, UTILITY))
    assert found is not None
    assert "noise leaves least" in found.sentence
    assert findings.cheap(defended(LEVELS, UTILITY | {"noise": 0.4})) is None
    assert findings.cheap(defended(LEVELS, UTILITY | {"dpsgd": 0.49})) is None, "said before"


def test_what_does_not_help_is_named() -> None:
    found = findings.no_help(defended(LEVELS, UTILITY))
    assert found is not None
    assert "what prune leaves cannot be told apart" in found.sentence
    assert findings.no_help(defended(LEVELS | {"prune": 0.5}, UTILITY)) is None


def test_attacks_no_better_than_guessing_are_named() -> None:
    tasks = [TaskRow("s/cola", "classification", "")]
    made = [row("s/cola", "a", 0.9), row("s/cola", "weak", 0.1), row("s/cola", "random", 0.1)]
    found = findings.guessing(attack_panels(tasks, boards(made, {})))
    assert found is not None
    assert "In classification, weak reads no more than can be guessed" in found.sentence
    assert findings.guessing(attack_panels(tasks, boards([made[0], made[2]], {}))) is None


def method(name: str, accuracy: float, leak: float) -> Method:
    metrics = {"accuracy_local": make_value([accuracy])}
    private = Leak(summary("ptlr", [leak] * 32), "a", "s/news")
    return Method(name, "ok", "", metrics, private, None, {})


def test_a_federated_method_that_leaks_less_is_told_with_its_accuracy() -> None:
    known = (method("fedavg", 0.9, 0.8), method("fede_vocab", 0.88, 0.1))
    found = findings.federated([FederatedTable("s/news", known)])
    assert found is not None
    assert "fede_vocab leaks 0.100 of the private tokens at worst (fedavg 0.800)" in found.sentence
    alike = (known[0], method("fede_vocab", 0.88, 0.75))  # less, but within the interval
    assert findings.federated([FederatedTable("s/news", alike)]) is None


def test_names_are_listed_as_in_a_sentence() -> None:
    assert findings.listed(["a"]) == "a"
    assert findings.listed(["a", "b", "c"]) == "a, b and c"
    assert findings.listed(list("abcdef")) == "a, b, c and 3 more"
