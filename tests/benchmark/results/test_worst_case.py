"""Worst cases: over the same snapshots, against a fixed panel, and who was missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark.plugins import registry
from benchmark.results.comparison import comparable
from benchmark.results.schema import Record, Score, SnapshotResult, Status, WorstCase
from benchmark.results.store import record_files, worst_case_files
from benchmark.results.worst_case import (
    Scored,
    cases,
    fullest,
    worst_case,
    worst_cases,
    write_worst_cases,
)
from benchmark.suites import Suite, Task
from tests.leaderboard.samples import make_record, make_score, make_snapshots, store

PANEL = ("dager", "film", "lamp")


def result(
    attack: str, level: float | None, *, score: Score | None = None, **fields: Any
) -> Scored:
    record = make_record("s/wiki", attack, **fields)
    return record, score or (None if level is None else make_score({"rougeL": [level] * 8}))


def case(*scored: Scored, panel: tuple[str, ...] = PANEL) -> WorstCase:
    (group,) = comparable(scored, lambda item: item[0])
    return worst_case(group, panel)


def outcomes(found: WorstCase) -> dict[str, str]:
    return {member.attack: member.outcome for member in found.panel}


def refused(count: int) -> list[SnapshotResult]:
    bad = [
        SnapshotResult(index=i, digest="5" * 64, status=Status.UNSUPPORTED, reason="too long")
        for i in range(count)
    ]
    return [*bad, *make_snapshots()[count:]]


def test_the_worst_attack_counts_whoever_it_is() -> None:
    levels = (("prior_only", 0.2), ("dager", 0.9), ("film", 0.4))
    count_error = make_score({"rougeL": [0.1] * 8, "type_count_error": [9.0] * 8})
    found = case(*(result(*each) for each in levels), result("odd", 0.1, score=count_error))
    assert set(found.worst) == {"rougeL"}, "an error of a count is no leak"
    assert (found.worst["rougeL"].attack, found.worst["rougeL"].rivals) == ("dager", 4)


def test_the_published_scale_is_no_leak() -> None:
    both = make_score({"rougeL": [0.1] * 8, "rouge1_with_specials": [0.5] * 8})
    assert set(case(result("film", None, score=both)).worst) == {"rougeL"}


def test_an_attack_outside_the_panel_counts_as_well() -> None:
    found = case(*(result(name, 0.1) for name in PANEL), result("newcomer", 0.8))
    assert found.complete
    assert found.worst["rougeL"].attack == "newcomer"


def test_every_member_of_the_panel_is_accounted_for() -> None:
    found = case(
        result("dager", 0.5),
        result("film", None, status=Status.UNSUPPORTED, reason="reads another layer"),
    )
    assert outcomes(found) == {"dager": "scored", "film": "unsupported", "lamp": "not run"}
    assert [member.attack for member in found.missing] == ["lamp"]
    assert not found.complete
    whole = case(result("dager", 0.5), panel=("dager",))
    assert whole.complete


def test_what_does_not_apply_counts_as_tried_with_its_reason() -> None:
    found = case(
        result("dager", 0.0, snapshots=refused(8), status=Status.UNSUPPORTED),
        result("film", 0.3, snapshots=refused(2)),
        result("lamp", None, status=Status.UNSUPPORTED, reason="not shared"),
    )
    assert outcomes(found) == {"dager": "unsupported", "film": "scored", "lamp": "unsupported"}
    assert found.complete
    assert [member.reason for member in found.panel] == ["too long", "", "not shared"]


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"snapshots": make_snapshots(failed=2)}, "failed", "2 of 8 snapshots: diverged"),
        ({"status": Status.TIMEOUT, "reason": "cell limit"}, "timeout", "cell limit"),
        ({"status": Status.OUT_OF_MEMORY, "reason": "9 GB"}, "failed", "9 GB"),
    ],
)
def test_a_failure_leaves_the_panel_incomplete(
    fields: dict[str, Any], outcome: str, reason: str
) -> None:
    found = case(result("dager", 0.5), result("film", 0.3, **fields), panel=("dager", "film"))
    member = found.panel[1]
    assert (member.outcome, member.reason, found.complete) == (outcome, reason, False)


def test_what_was_not_scored_or_never_declared_is_not_complete() -> None:
    assert outcomes(case(result("dager", None), panel=("dager",))) == {"dager": "not scored"}
    assert not case(result("dager", 0.4), panel=()).complete, "no panel, no promise"


def test_an_attack_that_answered_nothing_shows_no_safety() -> None:
    """Its zeros are failures: they are the worst case of nothing."""
    broken = result("dager", 0.0, snapshots=make_snapshots(failed=8), status=Status.ERROR)
    assert case(broken).worst == {}
    assert cases([broken]) == []


def test_seeds_versions_and_snapshots_are_never_mixed() -> None:
    def moved(record: Record) -> Record:
        other = [s.model_copy(update={"digest": "6" * 64}) for s in record.snapshots]
        when = record.provenance.created.replace(year=2026)
        origin = record.provenance.model_copy(update={"created": when})
        return record.model_copy(update={"snapshots": other, "provenance": origin})

    first = result("dager", 0.9, seed=0)
    second = result("film", 0.4, seed=1)
    found = {each.seed: each for each in cases([first, second])}
    assert {seed: each.worst["rougeL"].attack for seed, each in found.items()} == {
        0: "dager",
        1: "film",
    }
    newer = result("film", 0.3, version=2)
    (only,) = cases([first, newer])
    assert (only.task_version, only.worst["rougeL"].value.mean) == (2, 0.3)
    again = (moved(first[0]), make_score({"rougeL": [0.2] * 8}))
    (current,) = cases([result("film", 0.7), again])
    assert current.worst["rougeL"].value.mean == 0.2, "the newest snapshots alone"


def test_a_seed_on_which_less_of_the_panel_was_run_is_left_out() -> None:
    whole = case(*(result(name, 0.1, seed=0) for name in PANEL))
    part = case(result("film", 0.2, seed=1))
    assert fullest([whole, part]) == (whole,)
    less = case(result("dager", 0.2, seed=2))
    assert fullest([part, less]) == (part, less), "both lack as much"
    other = part.model_copy(update={"task": "s/mail"})
    assert fullest([whole, other]) == (whole, other), "tasks do not exclude each other"
    masked = part.model_copy(update={"defense": "mask"})
    assert fullest([whole, part, masked]) == (whole, part, masked), "a defense beside none"
    pruned = whole.model_copy(update={"defense": "prune"})
    assert fullest([whole, pruned, part, masked]) == (whole, pruned, part, masked), "none is lost"
    brief = part.model_copy(update={"defense": "prune"})
    assert fullest([whole, pruned, part, masked, brief]) == (whole, pruned, part, masked)


def test_worst_cases_are_written_beside_the_records_and_follow_the_scores(tmp_path: Path) -> None:
    place = ("s/wiki", "none", 0)
    store(tmp_path, make_record("s/wiki", "film"), make_score({"rougeL": [0.4] * 8}))
    former = tmp_path / "s" / "wiki" / "none" / "worst-case.json"
    former.write_text("{}")
    write_worst_cases(tmp_path)
    assert not former.exists()
    assert worst_cases(tmp_path)[place].worst["rougeL"].attack == "film"
    path = store(tmp_path, make_record("s/wiki", "dager"), make_score({"rougeL": [0.6] * 8}))
    store(tmp_path, make_record("s/wiki", "dager", seed=7), make_score({"rougeL": [0.1] * 8}))
    write_worst_cases(tmp_path)
    assert worst_cases(tmp_path)[place].worst["rougeL"].attack == "dager"
    assert worst_cases(tmp_path)["s/wiki", "none", 7].worst["rougeL"].value.mean == 0.1
    assert not set(record_files(tmp_path)) & set(worst_case_files(tmp_path))
    path.write_text(path.read_text() + " ")  # the score is of an older record now
    write_worst_cases(tmp_path)
    assert worst_cases(tmp_path)[place].worst["rougeL"].attack == "film"


def test_the_panel_is_the_suite_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = Task("s/wiki", "language-modeling", "Reads.", "builtin:x", "builtin:y", "causal-lm")
    suite = Suite("s", "Small.", (task,), panels={"causal-lm": PANEL})
    monkeypatch.setattr(registry, "find_suites", lambda: ({"s": suite}, ()))
    assert registry.panel_of("s/wiki") == PANEL
    assert registry.panel_of("s/other") == registry.panel_of("old/gone") == ()
    store(tmp_path, make_record("s/wiki", "film"), make_score({"rougeL": [0.4] * 8}))
    write_worst_cases(tmp_path)
    (found,) = worst_cases(tmp_path).values()
    assert [member.attack for member in found.missing] == ["dager", "lamp"]
