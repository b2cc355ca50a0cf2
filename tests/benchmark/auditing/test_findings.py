"""What one attack has read, and what a defense does to that, judged on a real task's truth."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmark.auditing.conditions import Costs, conditions
from benchmark.auditing.findings import CellFinding, judge
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.schema import Provenance, Record, SnapshotResult
from benchmark.runs.plan import Cell
from benchmark.spec import Truth
from benchmark.status import Status
from benchmark.suites import LoadedTask

Answer = Sequence[Sequence[int]]
ORIGIN = Provenance(
    fingerprint="", attack_digest="", defense_digest="", git_commit="", git_dirty=False,
    packages={}, python="", platform="", processor="", cores=1, memory_gb=1.0, device="cpu",
    threads=1, tf32=False, sandbox="", created=datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip


@pytest.fixture(scope="module")
def side() -> LoadedTask:
    return load_task(all_tasks()["mini/enron"])


@pytest.fixture(scope="module")
def truths(side: LoadedTask) -> list[Truth]:
    """Batches that hold entities and words with digits."""
    found = [side.private_batch(index, 0).truth for index in range(8)]
    rich = [truth for truth in found if truth.sentences[0].entities]
    return sorted(rich, key=lambda t: not any(c.isdigit() for c in t.sentences[0].text))[:2]


def judged(
    side: LoadedTask,
    truths: Sequence[Truth],
    answers: Sequence[Answer],
    types: Sequence[frozenset[int]] | None = None,
    attack: str = "dager",
    defense: str = "none",
    status: Status = Status.OK,
) -> CellFinding:
    def configured(kind: str, name: str) -> ConfiguredSubmission:
        entry = Entry(kind, name, "", "", "", "", False, {}, baseline=name == "random")  # type: ignore[arg-type]
        return ConfiguredSubmission(entry)

    cell = Cell(
        "audit", side.task, configured("defense", defense), 0, Path(), "", False, 1.0,
        configured("attack", attack),
    )  # fmt: skip
    results = [
        SnapshotResult(
            index=index, digest="", status=Status.OK, seconds=0.5,
            sentences=[list(ids) for ids in answer],
            token_types=None if types is None else sorted(types[index]),
        )
        for index, answer in enumerate(answers)
    ]  # fmt: skip
    record = Record(
        **cell.names(), attack=attack, status=status, reason="" if results else "it cannot",
        snapshots=results, provenance=ORIGIN,
    )  # fmt: skip
    return judge(cell, record, side, truths)


def true_ids(truths: Sequence[Truth]) -> list[Answer]:
    return [[truth.sentences[0].token_ids] for truth in truths]


def test_an_exact_answer_leaks_everything(side: LoadedTask, truths: list[Truth]) -> None:
    found = judged(side, truths, true_ids(truths))
    assert (found.attack.exact, found.attack.sentences) == (2, 2)
    assert all(sentence.exact for sentence in found.sentences)
    leaks = [leak for s in found.sentences for leak in (*s.entities, *s.numbers)]
    assert leaks
    assert all(leak.leaked for leak in leaks)


def test_a_wrong_answer_leaks_nothing(side: LoadedTask, truths: list[Truth]) -> None:
    special = sorted(side.special_ids)[:1]
    found = judged(side, truths, [[special], []])
    assert found.attack.exact == 0
    assert not any(leak.leaked for s in found.sentences for leak in (*s.entities, *s.numbers))


def test_token_types_leak_words_unless_they_name_everything(
    side: LoadedTask, truths: list[Truth]
) -> None:
    exact = [truth.token_types for truth in truths]
    everything = [frozenset(range(len(side.tokenizer)))] * 2
    found = judged(side, truths, [[], []], exact, "bag_of_words")
    assert found.attack.rouge_l is None
    assert all(leak.leaked for s in found.sentences for leak in (*s.entities, *s.numbers))
    named = judged(side, truths, [[], []], everything, "bag_of_words")
    assert not any(leak.leaked for s in named.sentences for leak in (*s.entities, *s.numbers))


def test_effects_are_judged_against_no_defense_and_against_guessing(
    side: LoadedTask, truths: list[Truth]
) -> None:
    exact = true_ids(truths)
    nothing: list[Answer] = [[], []]
    half: list[Answer] = [exact[0], []]
    findings = [
        judged(side, truths, exact),
        judged(side, truths, nothing, attack="random"),
        judged(side, truths, exact, defense="freeze"),
        judged(side, truths, half, defense="prune"),
        judged(side, truths, nothing, defense="dpsgd"),
        judged(side, truths, [], attack="tag", defense="dpsgd", status=Status.TIMEOUT),
        judged(side, truths, [], defense="broken", status=Status.ERROR),
    ]
    order = [(name, 1) for name in ("none", "freeze", "prune", "dpsgd", "broken")]
    found = conditions(findings, order, {("prune", 1): Costs(0.1, 99.0, None, {"accuracy": 0.5})})
    effects = {each.defense: each.effect for each in found}
    assert effects == {"none": "", "freeze": "none", "prune": "reduces", "dpsgd": "stops",
                       "broken": ""}  # fmt: skip
    assert [each.unfinished for each in found[2:4]] == [[], ["tag"]]
    assert found[2].exact == 1
    assert found[2].quality == {"accuracy": 0.5}
    assert (found[4].status, found[4].reason) == (Status.ERROR, "it cannot")


def test_answers_of_several_attacks_are_put_together(side: LoadedTask, truths: list[Truth]) -> None:
    exact = true_ids(truths)
    findings = [
        judged(side, truths, [exact[0], []], attack="dager"),
        judged(side, truths, [[], exact[1]], attack="film"),
    ]
    merged = conditions(findings, [("none", 1)], {})[0]
    assert merged.exact == 2
    assert [sentence.attack for sentence in merged.sentences] == ["dager", "film"]


def test_what_cannot_run_says_why(side: LoadedTask, truths: list[Truth]) -> None:
    found = judged(side, truths, [], status=Status.UNSUPPORTED)
    assert found.attack.reason == "it cannot"
    assert not found.sentences
