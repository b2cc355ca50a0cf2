"""DAGER through the harness: exact where it can be, frank where it cannot."""

from __future__ import annotations

import pytest

from benchmark.results.schema import Status
from tests.harness import RunCells
from tests.submissions.test_baselines import means


@pytest.mark.parametrize("task", ["mini/cola", "mini/wikitext", "mini/cola-float64"])
def test_one_sentence_is_read_exactly(run_cells: RunCells, task: str) -> None:
    found = means(run_cells("dager", task=task)[0])
    assert found["rouge1"] == found["rouge2"] == found["exact_match"] == 1.0
    assert found["type_precision"] == found["type_recall"] == 1.0


@pytest.mark.parametrize(
    ("attack", "task"), [("dager_lengths", "mini/cola-b4"), ("dager", "mini/wikitext-b2")]
)
def test_so_is_a_batch_with_fewer_tokens_than_dimensions(
    run_cells: RunCells, attack: str, task: str
) -> None:
    found = means(run_cells(attack, task=task)[0])
    assert found["rouge1"] >= 0.9
    assert found["exact_match"] >= 0.9


def test_frozen_embeddings_change_nothing(run_cells: RunCells) -> None:
    open_, frozen = (
        run_cells("dager", task="mini/cola", defense=defense)[0]
        for defense in ("none", "freeze_embeddings")
    )
    assert [s.sentences for s in frozen.snapshots] == [s.sentences for s in open_.snapshots]
    assert means(frozen)["exact_match"] == 1.0


def test_a_model_without_attention_is_not_supported(run_cells: RunCells) -> None:
    record = run_cells("dager", task="mini/sst2-fl")[0]
    assert record.status is Status.UNSUPPORTED
    assert "no attention" in record.reason


@pytest.mark.parametrize("task", ["mini/cola-b4", "mini/wikitext-b16"])
def test_a_search_that_is_cut_short_says_so_and_gives_what_it_has(
    run_cells: RunCells, task: str
) -> None:
    record = run_cells("dager[work=0.001]", task=task)[0]
    assert record.status is Status.OK
    cut = [s for s in record.snapshots if s.note.startswith("The work was done.")]
    assert cut
    assert all(s.token_types for s in cut)
    assert not any(s.stopped_by_clock for s in record.snapshots)


@pytest.mark.parametrize("defense", ["prune", "mask", "gaussian_noise", "dpsgd", "freeze_both"])
@pytest.mark.parametrize("task", ["mini/cola", "mini/wikitext-pretrained"])
def test_every_defense_gets_an_answer(run_cells: RunCells, task: str, defense: str) -> None:
    record = run_cells("dager[rounds=1,work=2.5]", task=task, defense=defense)[0]
    assert record.status is Status.OK, record.reason
    if defense == "freeze_both":
        assert means(record)["exact_match"] == 1.0


def test_more_tokens_than_dimensions_are_said_to_be_so(run_cells: RunCells) -> None:
    record = run_cells("dager[work=10.0]", task="mini/wikitext-b16", time_limit=300)[0]
    assert record.status is Status.OK
    assert all("as many tokens as the model is wide (96)" in s.note for s in record.snapshots)
    assert any(s.sentences for s in record.snapshots)
