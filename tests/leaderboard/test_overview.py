"""The front page's matrices: tasks by family and size, columns by mean, leaders above floors."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from benchmark.files import Parameters
from benchmark.results.schema import Status
from leaderboard.data.catalog import TaskRow
from leaderboard.data.defenses import defense_boards, worst_cases_of
from leaderboard.data.ordering import by_family, family_title, stem, task_order
from leaderboard.data.ranking import boards
from leaderboard.data.rows import Row
from leaderboard.views.matrix import Matrix, missing_results
from leaderboard.views.overview import attack_matrix, defense_matrix
from leaderboard.views.summary import Summary, summaries
from tests.leaderboard.samples import BASELINES, make_record, make_score, make_snapshots

LM, CLS = "language-modeling", "classification"
TASKS = [TaskRow("s/cola", CLS, "Judges."), TaskRow("s/wiki", LM, "Reads."), TaskRow("s/x", "", "")]


def row(
    task: str,
    attack: str,
    level: float,
    *,
    defense: str = "none",
    parameters: Parameters | None = None,
    token_sets: bool = False,
    seed: int = 0,
) -> Row:
    """A scored row whose every snapshot is worth `level`."""
    record = make_record(
        task,
        attack,
        defense,
        attack_parameters=parameters,
        snapshots=make_snapshots(token_sets=token_sets),
        seed=seed,
    )
    score = make_score({"rougeL": [level] * 8, "type_f1": [level] * 8})
    return Row(record, score, baseline=attack in BASELINES)


def attacks(rows: list[Row], metric: str = "rougeL") -> Matrix:
    """The matrix of attacks on `TASKS`."""
    return attack_matrix(metric, TASKS, boards(rows, {task.name: task.family for task in TASKS}))


def defenses(rows: list[Row], panel: tuple[str, ...] = ("a",)) -> Matrix:
    """The matrix of defenses on `TASKS`, all with the same panel."""
    made = boards(rows, {})
    cases = worst_cases_of(made, {task.name: panel for task in TASKS})
    return defense_matrix("rougeL", TASKS, made, defense_boards(cases, "rougeL"))


def columns(matrix: Matrix) -> list[str]:
    """The attacks in order."""
    return [head.row.attack for head in matrix.heads]


def summed(matrix: Matrix) -> dict[str, Summary]:
    """How the attacks compare over all lines, by name."""
    keys = [(line.task.name, line.seed) for line in matrix.lines]
    cells = [
        {key: line.cells[place] for key, line in zip(keys, matrix.lines, strict=True)}
        for place in range(len(matrix.heads))
    ]
    return dict(zip(columns(matrix), summaries(keys, cells, 0.0), strict=True))


def test_sizes_are_counted_and_variants_stay_together() -> None:
    wanted = ["20x", "a", "a-b2", "a-b4", "a-b16", "a-b32", "a-tuned", "a-tuned-b2"]
    wanted += ["b", "b-t500", "b-t1000", "b-tuned"]
    made = [TaskRow(f"s/{name}", LM, "") for name in sorted(wanted)]
    ordered = [task.name.removeprefix("s/") for task in sorted(made, key=task_order)]
    assert ordered == wanted


def test_families_have_a_fixed_order_and_strange_ones_come_last() -> None:
    families = ["", "vision", "federated", "translation", CLS, LM]
    grouped = by_family(TaskRow(f"s/{i}", family, "") for i, family in enumerate(families))
    assert [family for family, _ in grouped] == [*reversed(families[2:]), "vision", ""]
    assert family_title(LM) == "Language modeling"
    assert family_title("") == "Other tasks"


def test_the_size_is_no_part_of_the_stem() -> None:
    assert stem("mini/cola-b4") == stem("mini/cola-b16") == stem("mini/cola")
    assert stem("mini/cola-float64") == "mini/cola-float64"
    assert stem("-b4") == ""


@given(st.lists(st.text(st.sampled_from("ab-/09²٣"), max_size=12) | st.text(max_size=20)))
def test_any_names_have_one_order(names: list[str]) -> None:
    made = [TaskRow(name, "", "") for name in dict.fromkeys(names)]
    shuffled = random.Random(0).sample(made, len(made))
    assert sorted(made, key=task_order) == sorted(shuffled, key=task_order)


def test_columns_are_ordered_by_lines_led_and_then_by_whom_they_beat() -> None:
    rows = [row("s/wiki", "weak", 0.3), row("s/cola", "weak", 0.3), row("s/wiki", "strong", 0.9)]
    matrix = attacks([*rows, row("s/cola", "late", 0.2), row("s/cola", "good", 0.5)])
    assert columns(matrix) == ["good", "strong", "weak", "late"]


def test_without_a_common_line_columns_meet_in_pairs() -> None:
    rows = [row("s/wiki", "a", 0.9), row("s/wiki", "b", 0.3), row("s/cola", "b", 0.5)]
    matrix = attacks([*rows, row("s/cola", "c", 0.9), row("s/x", "c", 0.2)])
    duels = {name: (s.wins, s.ties, s.losses, s.beaten) for name, s in summed(matrix).items()}
    assert duels == {"a": (1, 0, 0, 1), "b": (0, 0, 2, -2), "c": (1, 0, 0, 1)}


def test_a_failure_counts_and_what_is_ruled_out_does_not() -> None:
    failed = Row(make_record("s/cola", "a", status=Status.TIMEOUT, reason="too slow"))
    refused = Row(make_record("s/cola", "b", status=Status.UNSUPPORTED, reason="needs labels"))
    rows = [row("s/wiki", "a", 0.4), row("s/wiki", "b", 0.4), row("s/cola", "c", 0.1)]
    rows += [row("s/wiki", "c", 0.2)]
    over = summed(attacks([*rows, failed, refused]))
    assert (over["a"].wins, over["a"].ties, over["a"].losses) == (1, 1, 1)
    assert (over["b"].wins, over["b"].ties, over["b"].losses) == (1, 1, 0)


def test_what_an_attack_refused_while_it_ran_does_not_excuse_it() -> None:
    snapshots = [
        s.model_copy(update={"status": Status.UNSUPPORTED, "sentences": [], "reason": "too long"})
        for s in make_snapshots()
    ]
    record = make_record("s/cola", "a", status=Status.UNSUPPORTED, snapshots=snapshots)
    zeros = make_score({"rougeL": [0.0] * 8})
    rows = [row("s/wiki", "a", 0.4), row("s/cola", "b", 0.1), row("s/wiki", "b", 0.2)]
    matrix = attacks([*rows, Row(record, zeros)])
    assert (summed(matrix)["a"].wins, summed(matrix)["a"].losses) == (1, 1)
    (cell,) = [c for line in matrix.lines for c in line.cells if c.label == "unsupported"]
    assert cell.tried
    assert not cell.entry


def test_seeds_are_lines_of_their_own() -> None:
    rows = [row("s/wiki", "a", 0.4, seed=s) for s in (100, 0)]
    matrix = attacks([*rows, row("s/wiki", "b", 0.3), row("s/cola", "a", 0.8)])
    assert [(line.task.name, line.seed, line.says_seed) for line in matrix.lines] == [
        ("s/wiki", 0, True),
        ("s/wiki", 100, True),
        ("s/cola", 0, False),
    ]
    for line in matrix.lines:
        shown = [cell.entry.row for cell in line.cells if cell.entry]
        assert {each.seed for each in shown} == {line.seed}
        assert len({each.record.snapshot_set for each in shown}) == 1


def test_lines_stand_under_their_family() -> None:
    matrix = attacks([row("s/wiki", "a", 0.4), row("s/cola", "a", 0.8)])
    assert [group.family for group in matrix.groups] == [LM, CLS]
    assert [line.task.name for line in matrix.lines] == ["s/wiki", "s/cola"]


def test_an_attack_leads_only_above_the_floors() -> None:
    above = attacks(
        [row("s/wiki", "a", 0.4), row("s/wiki", "b", 0.4), row("s/wiki", "random", 0.1)]
    )
    assert [cell.leads for cell in above.lines[0].cells] == [True, True, False]
    assert [summary.leads for summary in summed(above).values()] == [1, 1, 0]
    level = attacks([row("s/wiki", "a", 0.4), row("s/wiki", "prior_only", 0.4)])
    assert not any(cell.leads for cell in level.lines[0].cells)


def test_floors_alone_are_no_contest() -> None:
    assert not attacks([row("s/wiki", "random", 0.4)]).contested
    assert attacks([row("s/wiki", "random", 0.4), row("s/wiki", "a", 0.1)]).contested


def test_tasks_with_floors_only_are_set_aside() -> None:
    made = attacks(
        [row("s/wiki", "random", 0.4), row("s/wiki", "a", 0.1), row("s/x", "random", 0.2)]
    )
    assert [line.task.name for line in made.lines] == ["s/wiki"]
    assert [task.name for task in made.quiet] == ["s/cola", "s/x"]
    alone = attacks([row("s/wiki", "random", 0.4)])
    assert len(alone.lines) == 3
    assert not alone.quiet


def test_variants_are_columns_of_their_own_and_token_sets_are_left_out() -> None:
    rows = [
        row("s/wiki", "a", 0.4),
        row("s/wiki", "a", 0.6, parameters={"loss": "l2"}),
        row("s/wiki", "bag", 0.9, token_sets=True),
    ]
    assert columns(attacks(rows)) == ["a[loss=l2]", "a"]
    assert attacks(rows).token_sets == ("bag",)
    assert columns(attacks(rows, "type_f1"))[0] == "bag"


def test_defenses_start_with_none_and_then_leave_least_first() -> None:
    made = [
        row(task, attack, level * strength, defense=defense)
        for task in ("s/wiki", "s/cola")
        for attack, strength in (("a", 1.0), ("b", 0.5))
        for defense, level in (("prune", 0.5), ("none", 0.9), ("dpsgd", 0.1))
    ]
    matrix = defenses(made)
    assert [head.row.defense for head in matrix.heads] == ["none", "dpsgd", "prune"]
    strongest = matrix.lines[0].cells[0]
    assert strongest.entry is not None
    assert (strongest.entry.row.attack, strongest.rivals) == ("a", 2)
    assert [cell.leads for cell in matrix.lines[0].cells] == [False, True, False]
    assert [cell.entry.rank for cell in matrix.lines[0].cells if cell.entry] == [3, 1, 2]


def test_a_defense_with_an_incomplete_panel_cannot_lead() -> None:
    """It faced the weaker attack alone."""
    made = [row("s/wiki", attack, 0.5, defense="prune") for attack in ("a", "b")]
    made += [row("s/wiki", attack, 0.9, defense="none") for attack in ("a", "b")]
    made += [row("s/wiki", "b", 0.0, defense="untried")]
    matrix = defenses(made, panel=("a", "b"))
    cells = {h.row.defense: c for h, c in zip(matrix.heads, matrix.lines[0].cells, strict=True)}
    untried = cells["untried"]
    assert untried.entry is not None
    assert (untried.entry.rank, untried.leads, untried.tried) == (0, False, False)
    assert [(member.attack, member.outcome) for member in untried.lacking] == [("a", "not run")]
    assert cells["prune"].leads
    assert matrix.heads[-1].row.defense == "untried"


def test_defenses_on_other_text_are_not_compared() -> None:
    def with_truths(each: Row, truths: str) -> Row:
        assert each.score is not None
        return replace(each, score=each.score.model_copy(update={"truths": truths}))

    made = [with_truths(row("s/wiki", "a", 0.9), "new")]
    made += [with_truths(row("s/wiki", "a", 0.5, defense="prune"), "new")]
    made += [with_truths(row("s/wiki", "a", 0.1, defense="old"), "old")]
    matrix = defenses(made)
    cells = {h.row.defense: c for h, c in zip(matrix.heads, matrix.lines[0].cells, strict=True)}
    assert cells["old"].entry is None
    assert cells["old"].label == "other text"
    assert cells["prune"].leads


def test_a_reason_is_said_once_with_all_its_tasks() -> None:
    failed = [
        Row(make_record(task, "film", status=Status.UNSUPPORTED, reason="needs labels"))
        for task in ("s/wiki", "s/cola")
    ]
    rows = [*failed, row("s/wiki", "a", 0.4)]
    (silence,) = missing_results([attacks(rows), attacks(rows, "type_f1")])
    assert (silence.head.row.attack, silence.label) == ("film", "unsupported")
    assert (silence.reason, silence.tasks) == ("needs labels", ("s/wiki", "s/cola"))
