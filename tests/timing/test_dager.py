"""DAGER's token filter against a plain projection, and a whole recovery against its parts."""

from __future__ import annotations

from typing import Any

import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification, BertModel

from benchmark.spec import Client, Observation, Public
from submissions.attacks.dager import Dager
from submissions.blocks.dager.anatomy import Anatomy
from submissions.blocks.dager.spans import Span, span_of
from submissions.blocks.dager.vocabulary import FirstInputs, candidates
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES
from tests.submissions.test_matching_models import make_batch, make_tokenizer
from tests.timing.ratios import in_turn

TOKENS, LIMIT = 60, 6.0
WORDS = 30_522


def make_bert(layers: int, width: int, words: int) -> Any:
    torch.manual_seed(0)
    eager: dict[str, Any] = {"attn_implementation": "eager"}
    return BertConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=width // 64, intermediate_size=4 * width, **eager,
    )  # fmt: skip


def test_the_sketch_filters_at_least_eight_times_as_fast(benchmark: BenchmarkFixture) -> None:
    """d = 768, V = 30,522, one token at each of 60 positions."""
    model = BertModel(make_bert(1, 768, WORDS)).eval()
    anatomy = Anatomy(model)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(WORDS, (1, TOKENS), generator=generator)
    rows = torch.randn(3 * 768, TOKENS, generator=generator)
    gradient = rows @ anatomy.inputs(ids, [anatomy.first])[0][0]  # (M, D)
    parts = dict(zip(anatomy.first.weights, gradient.split(768), strict=True))
    span = span_of(anatomy.first, parts, None)
    assert span is not None
    inputs = FirstInputs(anatomy, TOKENS)

    def fast() -> set[tuple[int, int]]:
        found = candidates(inputs, span, LIMIT, torch.Generator().manual_seed(0))
        return set(zip(found.positions.tolist(), found.tokens.tolist(), strict=True))

    def plain(place: int) -> list[tuple[int, int]]:
        built = plain_inputs(model, place)
        distance = (built - (built @ basis) @ basis.T).norm(dim=1) / built.norm(dim=1)
        return [(place, int(token)) for token in (distance < 1e-4).nonzero()]

    basis = span.basis.float()
    places = (0, 20, 40)
    with torch.inference_mode():
        ratio, accepted, passed = in_turn(
            benchmark, fast, lambda: [plain(p) for p in places], work=TOKENS / len(places)
        )
    assert accepted == set(enumerate(ids[0].tolist()))
    assert passed == [[(p, int(ids[0, p]))] for p in places]
    assert ratio >= 8


def plain_inputs(model: Any, place: int) -> Tensor:
    """Every vocabulary entry at a place as the first attention would see it, (V, D)."""
    table = model.embeddings
    sums = table.word_embeddings.weight + table.position_embeddings.weight[place]
    sums = sums + table.token_type_embeddings.weight[0]
    norm = table.LayerNorm
    return functional.layer_norm(sums, sums.shape[1:], norm.weight, norm.bias, norm.eps)


def test_nothing_but_span_and_filter_takes_long(benchmark: BenchmarkFixture) -> None:
    """One sentence of 14 tokens on a BERT of six layers and width 384."""
    model = BertForSequenceClassification(make_bert(6, 384, WORDS)).eval()
    public = Public(
        task="tests/timing", objective=OBJECTIVES["classification"], model=model,
        tokenizer=make_tokenizer(False), roles=roles(model), batch_size=1, batch_tokens=None,
        max_tokens=40, grants=frozenset(), text=(), prior=None, device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    batch = make_batch(public, [" ".join(f"word{3 * i % 40}" for i in range(12))])
    client = Client(model, public.objective, public.roles, torch.Generator())
    update = client.update(batch, [name for name, _ in model.named_parameters()])
    observation = Observation(public, update, 1, seed=0)
    anatomy = Anatomy(model)
    sites = [anatomy.first, *anatomy.behind(False)]

    def parts() -> Span:
        spans = [span_of(site, update.tensors, None) for site in sites]
        assert spans[0] is not None
        candidates(FirstInputs(anatomy, 40), spans[0], LIMIT, torch.Generator().manual_seed(0))
        return spans[0]

    def all_parts() -> Span:
        with torch.inference_mode():
            return parts()

    ratio, _, answer = in_turn(benchmark, all_parts, lambda: Dager().recover(observation))
    assert list(answer.sentences[0]) == batch.input_ids[0, 1:-1].tolist()
    assert benchmark.disabled or ratio <= 3
