"""The first submissions: the bag of words is exact, the floors are low but not nothing."""

from __future__ import annotations

import pytest
import torch

from benchmark.plugins.registry import all_tasks, load_task
from benchmark.results.measure import score_record
from benchmark.results.schema import Record
from benchmark.spec import Truth
from submissions.blocks.token_sets.separation import outside_the_bulk, present_rows, stand_out
from tests.harness import RunCells


def means(record: Record) -> dict[str, float]:
    side = load_task(all_tasks()[record.task])
    truths = [side.private_batch(i, record.seed).truth for i in range(side.task.snapshots)]
    score = score_record(record, truths, side.decode, side.special_ids, "")
    return {name: value.mean for name, value in score.metrics.items()}


@pytest.mark.parametrize(
    "task", ["mini/wikitext-b16", "mini/cola-b8", "mini/iwslt", "mini/sst2-fl"]
)
def test_the_bag_is_exact_where_embeddings_are_untied(run_cells: RunCells, task: str) -> None:
    record = run_cells("bag_of_words", task=task)[0]
    assert means(record)["type_precision"] == 1.0
    assert means(record)["type_recall"] == 1.0
    assert "rougeL" not in means(record)


def test_the_longest_sentence_is_read_off_the_positions(run_cells: RunCells) -> None:
    record = run_cells("bag_of_words", task="mini/cola-b8")[0]
    side = load_task(all_tasks()["mini/cola-b8"])
    for result in record.snapshots:
        longest = max(side.private_batch(result.index, 0).lengths)
        assert result.note == f"The longest sentence has {longest} tokens."


def test_a_tied_gradient_needs_separation_and_gets_it(run_cells: RunCells) -> None:
    """Every row of a tied matrix has a gradient, so taking all of them would be worthless."""
    tied = run_cells("bag_of_words", task="mini/wikitext-tied")[0]
    assert means(tied)["type_f1"] > 0.95
    size = len(load_task(all_tasks()["mini/wikitext-tied"]).tokenizer)
    assert all(len(r.token_types or ()) < size / 10 for r in tied.snapshots)


def test_floors_know_lengths_but_no_words(run_cells: RunCells) -> None:
    for floor in ("random", "prior_only"):
        found = means(run_cells(floor, task="mini/cola-b4")[0])
        assert 0 < found["rouge1"] < 0.5
        assert found["exact_match"] == 0


def test_public_sentences_are_what_multi_sentence_recall_is_measured_against(
    run_cells: RunCells,
) -> None:
    """Whole public sentences, as many as asked for; some come close without a look."""
    task = all_tasks()["mini/wikitext-b16"]
    record = run_cells("public_sentences", task=task.name)[0]
    public = set(load_task(task).public_text())
    for snapshot in record.snapshots:
        assert len({tuple(ids) for ids in snapshot.sentences}) == 32
        assert set(snapshot.texts) <= public
    assert record.told == ["public-text"]
    found = means(record)
    assert 0 < found["sentence_recall"] < 1
    few = run_cells("public_sentences[sentences=1]", task=task.name)[0]
    assert all(len(snapshot.sentences) == task.batch_size for snapshot in few.snapshots)
    assert means(few)["sentence_recall"] <= found["sentence_recall"]


def test_separation_is_exact_while_positions_are_fewer_than_dimensions() -> None:
    """A tied gradient made by hand: softmax mass on every row, and a few tokens that occur."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(20, 64, generator=generator)  # (T, D)
    mass = torch.rand(500, 20, generator=generator) ** 8 / 100  # (V, T)
    gradient = mass @ hidden
    present = torch.tensor([3, 77, 210, 444])
    gradient[present] -= hidden[:4]  # as targets
    gradient[present] += 0.01 * torch.randn(4, 64, generator=generator)  # as inputs
    assert sorted(present_rows(gradient, at_most=20).tolist()) == present.tolist()
    crowded = torch.randn(500, 64, generator=generator)
    assert outside_the_bulk(crowded.double(), at_most=20) is None


def test_separation_is_not_taken_in_by_size() -> None:
    """A word that the model was sure of and that did not come has a large row and its rounding."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(20, 64, generator=generator)  # (T, D)
    mass = torch.rand(500, 20, generator=generator) ** 8 / 100  # (V, T)
    mass[[5, 6]] *= 1e7
    gradient = mass @ hidden
    present = torch.tensor([3, 77, 210, 444])
    gradient[present] -= hidden[:4]  # as targets
    gradient[present] += 0.01 * torch.randn(4, 64, generator=generator)  # as inputs
    assert sorted(present_rows(gradient, at_most=20).tolist()) == present.tolist()


def test_what_stands_out_is_above_the_widest_gap() -> None:
    values = torch.tensor([1e-6, 5.0, 1e-7, 4.0, 2e-6, 6.0])
    assert sorted(stand_out(values, at_most=5).tolist()) == [1, 3, 5]
    assert stand_out(torch.tensor([1.0]), at_most=3).tolist() == [0]


def test_a_truth_counts_each_type_once() -> None:
    side = load_task(all_tasks()["mini/cola-b4"])
    truth: Truth = side.private_batch(0, 0).truth
    assert truth.token_types == {i for s in truth.sentences for i in s.token_ids}
    assert not truth.token_types & side.special_ids
