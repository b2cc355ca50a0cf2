"""Panels of attacks, series, heat maps, folding, cells and timing as data."""

from __future__ import annotations

from benchmark.results.schema import Example, Status
from leaderboard.data.catalog import Catalog, ParameterRow, SubmissionRow, TaskRow
from leaderboard.data.ranking import boards
from leaderboard.data.rows import Row
from leaderboard.views.attacks import attack_panels, panel_lines
from leaderboard.views.cells import cell_view
from leaderboard.views.folding import dense_blocks
from leaderboard.views.heat import heat_maps
from leaderboard.views.hero import hero
from leaderboard.views.overview import attack_matrix
from leaderboard.views.series import batch_series, progress_series, strengths
from tests.leaderboard.samples import BASELINES, make_record, make_score, make_snapshots

LM = "language-modeling"
TASKS = [TaskRow(f"s/{name}", LM, "") for name in ("wiki", "wiki-scratch", "enron")]


def row(task: str, attack: str, level: float, defense: str = "none", **settings: object) -> Row:
    """A scored row whose snapshots are all worth `level`."""
    record = make_record(task, attack, defense, snapshots=make_snapshots(16))
    record = record.model_copy(update=settings)
    score = make_score({"rougeL": [level] * 16, "type_f1": [level] * 16})
    return Row(record, score, baseline=attack in BASELINES)


def test_a_panel_is_what_all_attacks_of_the_fullest_line_were_run_on() -> None:
    tried = {
        ("s/wiki", 0): frozenset("ab"),
        ("s/enron", 0): frozenset("abc"),
        ("s/wiki-scratch", 0): frozenset("abc"),
        ("s/wiki", 1): frozenset("abc"),
    }
    order = [task.name for task in TASKS]
    assert panel_lines(tried, order) == (("s/wiki-scratch", 0), ("s/enron", 0))
    more = {**tried, ("s/wiki", 1): frozenset("abcd")}
    assert panel_lines(more, order) == (("s/wiki", 1),), "seeds are not mixed"
    assert panel_lines({}, []) == ()


def test_the_best_variant_is_ranked_and_others_are_folded_under_it() -> None:
    made = [
        row("s/wiki", "a", 0.4),
        row("s/wiki", "a", 0.8, attack_variant="a_quick"),
        row("s/wiki", "b", 0.5),
        row("s/wiki", "random", 0.1),
    ]
    (panel,) = attack_panels(TASKS, boards(made, {}))
    assert [(each.name, each.scores["rougeL"].rank) for each in panel.attacks] == [
        ("a_quick", 1),
        ("b", 2),
        ("random", 3),
    ]
    assert [each.name for each in panel.attacks[0].variants] == ["a"]
    assert [each.name for each in panel.leaders] == ["a_quick"]


def test_token_sets_stand_behind_what_writes_sentences() -> None:
    bag = Row(make_record("s/wiki", "bag", snapshots=make_snapshots(16, token_sets=True)))
    bag = Row(bag.record, make_score({"type_f1": [1.0] * 16}))
    (panel,) = attack_panels(TASKS, boards([row("s/wiki", "a", 0.4), bag], {}))
    assert [each.name for each in panel.attacks] == ["a", "bag"]
    assert "rougeL" not in panel.attacks[1].scores
    assert panel.attacks[1].scores["type_f1"].rank == 1


def test_training_progress_is_read_off_the_names_of_tasks() -> None:
    made = [row("s/wiki", "a", 0.4), row("s/wiki-scratch", "a", 0.7), row("s/enron", "a", 0.1)]
    points = progress_series(TASKS, boards(made, {}))
    assert [(p.panel, p.label, p.value.mean) for p in points] == [
        ("wiki", "scratch", 0.7),
        ("wiki", "fine-tuned", 0.4),
    ]


def test_the_strength_of_a_defense_is_its_one_varied_number() -> None:
    made = [
        row("s/wiki", "a", 0.4, "noise", defense_parameters={"sigma": 0.1}),
        row("s/wiki", "a", 0.4, "noise"),
        row("s/wiki", "a", 0.4, "freeze"),
    ]
    noise = SubmissionRow("defense", "noise", "", parameters=(ParameterRow("sigma", 0.01, ""),))
    known = strengths(made, Catalog(submissions=(noise,)))
    assert (known["noise[sigma=0.1]"].parameter, known["noise[sigma=0.1]"].value) == ("sigma", 0.1)
    assert known["noise"].value == 0.01
    assert known["freeze"].parameter == ""


def test_a_heat_map_takes_the_task_with_most_pairs() -> None:
    pairs = [("a", "none", 0.9), ("b", "none", 0.5), ("a", "prune", 0.4), ("b", "prune", 0.3)]
    made = [row("s/wiki", attack, level, defense) for attack, defense, level in pairs]
    made += [row("s/enron", "a", 0.9), row("s/enron", "a", 0.2, "prune")]
    (drawn,) = heat_maps(TASKS, boards(made, {}))
    assert (drawn.task, drawn.attacks, drawn.defenses) == ("s/wiki", ("a", "b"), ("none", "prune"))
    assert heat_maps(TASKS, boards([made[0]], {})) == ()


def test_a_matrix_has_no_column_that_is_mostly_empty() -> None:
    tasks = [TaskRow(f"s/t{i}", LM, "") for i in range(8)]
    made = [row(task.name, attack, 0.4) for task in tasks for attack in ("a", "b", "c")]
    made += [row("s/t0", "rare", 0.9)]
    made += [
        Row(make_record(task.name, "other", status=Status.UNSUPPORTED, reason="no", snapshots=[]))
        for task in tasks
    ]
    (block,) = dense_blocks(attack_matrix("rougeL", tasks, boards(made, {})), "attack")
    assert [each.head.row.attack for each in block.heads] == ["a", "b", "c"]
    assert block.filled == 1.0
    assert [(head.row.attack, line.task.name) for line, head, _ in block.rest] == [("rare", "s/t0")]


def test_variants_of_tasks_and_attacks_are_marked_to_be_folded() -> None:
    made = [row(t.name, a, 0.4) for t in TASKS for a in ("a", "b")]
    made += [row(t.name, "a", 0.3, attack_variant="a_quick") for t in TASKS]
    (block,) = dense_blocks(attack_matrix("rougeL", TASKS, boards(made, {})), "attack")
    assert [(each.head.row.attack, each.variant) for each in block.heads] == [
        ("a", False),
        ("a_quick", True),
        ("b", False),
    ]
    folded = {each.line.task.name for each in block.lines if each.variant}
    assert folded == {"s/wiki-scratch"}


def test_a_cell_shows_pairs_scores_and_the_command_that_repeats_it() -> None:
    examples = [
        Example(index=0, sentence=0, truth="the old cat sat", recovered="the cat sat old"),
        Example(index=0, sentence=1, truth="a dog", recovered=""),
    ]
    score = make_score({"rougeL": [0.5] * 8, "type_f1": [0.6] * 8}, examples)
    view = cell_view(Row(make_record("mini/cola", "a b", "prune[ratio=0.9]", seed=100), score))
    assert view.command == (
        "leakboard run --suite mini --task cola --attack 'a b' --defense 'prune[ratio=0.9]' "
        "--seed 100"
    )
    first, second = view.snapshots[0].pairs
    assert (first.hits, first.words, second.hits) == (4, 4, 0)
    assert view.snapshots[0].scores == (0.5, 0.6)
    assert view.snapshots[1].texts == ("some recovered text",)


def test_a_record_of_figures_only_has_a_page_without_text() -> None:
    bare = [s.model_copy(update={"sentences": [], "texts": []}) for s in make_snapshots()]
    view = cell_view(Row(make_record(snapshots=bare), make_score()))
    assert not view.has_text
    assert not any(snapshot.texts for snapshot in view.snapshots)
    assert hero(boards([Row(make_record(snapshots=bare), make_score())], {})) is None


def test_a_curve_is_of_one_seed() -> None:
    tasks = [TaskRow("s/wiki", LM, ""), TaskRow("s/wiki-b8", LM, "", batch_size=8)]
    made = [
        row("s/wiki", "a", 0.9, seed=0),
        row("s/wiki", "a", 0.8, seed=100),
        row("s/wiki-b8", "a", 0.3, seed=100),
    ]
    assert [point.value.mean for point in batch_series(tasks, boards(made, {}))] == [0.8, 0.3]
