"""DAGER as published: fixed thresholds, combinations of what fits, bounded by counted work."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from benchmark.plugins.catalog import Catalog
from benchmark.spec import Observation
from submissions.attacks.dager import Dager
from submissions.blocks.clock import Clock
from submissions.blocks.dager import published
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.published import CombinationSearch, PublishedReader
from submissions.blocks.dager.reader import Settings
from tests.submissions.test_dager_blocks import observe

TWO = [[3, 14, 15, 9, 2, 6], [5, 35, 8, 14]]


def reader_of(observation: Observation) -> PublishedReader:
    return PublishedReader(observation.public, Settings(1.0, 256, 32, 12))


def effort_of(most: int) -> Effort:
    return Effort(most, Clock(lambda: float("inf")))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "llama"])
def test_two_sentences_are_read_without_any_knowledge(kind: str) -> None:
    observation, ids = observe(kind, TWO)
    hidden = observation.public.forbidden_ids
    truth = {tuple(i for i in row if i not in hidden) for row in ids.tolist()}
    answer = Dager(method="published").recover(observation)
    assert {tuple(sentence) for sentence in answer.sentences} == truth
    assert answer.note == ""


def test_it_is_told_nothing(catalogs: tuple[Catalog, Catalog]) -> None:
    entry = catalogs[0].entries["dager"]
    assert entry.told(entry.variants["dager_paper"]) == frozenset()
    assert entry.told(entry.variants["dager_lengths"]) == {"lengths", "noise-scale"}


def test_a_distance_is_relative_to_the_span_of_the_query_gradient() -> None:
    observation, _ = observe("bert", TWO)
    reader = reader_of(observation)
    span = reader._span(reader.anatomy.first, observation.update)
    assert span is not None
    name = reader.anatomy.first.weights[0]
    rows = observation.update.tensors[name].double()  # (out, in)
    inputs = torch.randn(5, rows.shape[1], dtype=torch.float64)
    inputs[0] = rows[0]
    basis = torch.linalg.svd(rows).Vh[: span.rank]
    outside = inputs - inputs @ basis.T @ basis
    expected = outside.norm(dim=1) / inputs.norm(dim=1) / published.FIRST
    torch.testing.assert_close(span.ratios(inputs), expected, rtol=1e-6, atol=1e-3)
    assert float(span.ratios(inputs)[0]) < 1 < float(span.ratios(inputs)[1])


def search_of(observation: Observation, batch: int) -> CombinationSearch:
    reader = reader_of(observation)
    (check,) = reader._checks(observation)
    return CombinationSearch(reader.anatomy, check, batch, torch.Generator().manual_seed(0))


def test_the_best_of_all_combinations_is_the_one_that_plain_enumeration_finds() -> None:
    observation, ids = observe("bert", TWO)
    search = search_of(observation, 1)
    sets = [sorted({token, 20 + place, 30}) for place, token in enumerate(ids[0].tolist())]
    sets[0], sets[-1] = [int(ids[0, 0])], [int(ids[0, -1])]
    search.try_length(sets, effort_of(10**9), 10**9)
    scores = {}
    for combination in product(*sets):
        hidden = search.anatomy.inputs(torch.tensor([combination]), [search.site])[0]
        scores[combination] = float(search.span.ratios(hidden).mean())
    best = min(scores, key=lambda combination: scores[combination])
    assert best == tuple(ids[0].tolist())
    (found,) = search.answer()
    assert found.ids == best
    assert found.whole
    assert found.ratio == pytest.approx(scores[best], abs=1e-3)


def test_too_many_combinations_are_drawn_and_counted_work_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation, ids = observe("bert", TWO)
    monkeypatch.setattr(published, "COMBINATIONS", 2000)
    sets = [[int(ids[0, 0])], *([*range(5, 35)] for _ in range(6)), [int(ids[0, -1])]]
    spent = []
    for most in (1, 10**9):
        search, effort = search_of(observation, 2), effort_of(most)
        search.try_length(sets, effort, most)
        assert len(search.answer()) == 2
        assert not any(found.whole for found in search.answer())
        spent.append(effort.spent)
    each = spent[0]  # one part of the draws, and then it stops
    assert spent == [each, 4 * each]


def test_what_was_found_exactly_is_not_sought_again() -> None:
    observation, ids = observe("bert", TWO)
    search = search_of(observation, 2)
    truth = ids[0].tolist()
    sets = [[token, 40] if 0 < n < 7 else [token] for n, token in enumerate(truth)]
    search.try_length(sets, effort_of(10**9), 10**9)
    assert search._left(1, [truth[1], 40]) == [40]
    assert search._left(0, [truth[0]]) == [truth[0]]  # nothing else could stand there
