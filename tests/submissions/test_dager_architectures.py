"""DAGER on architectures that it was not told about: read from structure, or refused in words."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
import transformers
from torch import nn

from benchmark.spec import Batch, Client, Observation, Public, Role
from submissions.attacks.dager import Dager
from submissions.blocks.dager.anatomy import Anatomy, NoAttention
from submissions.blocks.dager.entry import entry_of
from submissions.blocks.dager.heads import Heads
from submissions.blocks.sentences import first_position, sentence_lengths
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES
from tests.submissions.test_matching_models import VOCABULARY, make_tokenizer

SMALL: dict[str, Any] = {
    "vocab_size": len(VOCABULARY), "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 128, "initializer_range": 0.1,
    "attn_implementation": "eager", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
OPT: dict[str, Any] = {"ffn_dim": 128, "word_embed_proj_dim": 64, "max_position_embeddings": 64}
PAIR: dict[str, Any] = {"num_key_value_heads": 2}

DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "opt": ("OPT", OPT),  # positions that begin at row 2, separate projections
    "gpt_neox": ("GPTNeoX", {}),  # rotary, one fused projection, attention beside feed-forward
    "phi3": ("Phi3", {}),  # fused projections in both parts
    "gemma": ("Gemma", {**PAIR, "head_dim": 16}),  # scaled words, a gain that counts from 1
    "qwen3": ("Qwen3", {**PAIR, "head_dim": 16}),
}
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "albert": ("Albert", "SequenceClassification", {"embedding_size": 32}, "projected"),
    "bloom": ("Bloom", "CausalLM", {}, "more than words and positions"),
    "modernbert": ("ModernBert", "SequenceClassification", {"cls_token_id": 1, "sep_token_id": 2},
                   "more than scaled dot products"),
    "mamba": ("Mamba", "CausalLM", {}, "cannot be continued"),
}  # fmt: skip


def make(name: str, head: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **settings})
    model = getattr(transformers, f"{name}For{head}")(config).eval()
    for module in model.modules():  # some classes draw without regard to `initializer_range`
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
    return model


def observe(model: Any, objective: str, texts: list[list[int]]) -> tuple[Observation, Batch]:
    tokenizer, chosen = make_tokenizer(objective == "causal-lm"), OBJECTIVES[objective]
    words = [" ".join(f"word{i}" for i in numbers) for numbers in texts]
    batch = chosen.encode(tokenizer, words, [i % 2 for i in range(len(texts))], None, 40)
    public = Public(
        task="tests/architectures", objective=chosen, model=model, tokenizer=tokenizer,
        roles=roles(model), batch_size=len(texts), batch_tokens=None, max_tokens=24,
        grants=frozenset(), text=(), prior=None, device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    client = Client(model, chosen, public.roles, torch.Generator())
    update = client.update(batch, [name for name, _ in model.named_parameters()])
    return Observation(public, update, len(texts), seed=0), batch


def read_back(observation: Observation, batch: Batch) -> tuple[set[Any], set[Any]]:
    hidden = observation.public.forbidden_ids
    truth = {tuple(i for i in row if i not in hidden) for row in batch.input_ids.tolist()}
    return truth, {tuple(s) for s in Dager().recover(observation).sentences}


@pytest.mark.parametrize("kind", DECODERS)
def test_decoders_are_read_exactly(kind: str) -> None:
    name, settings = DECODERS[kind]
    observation, batch = observe(
        make(name, "CausalLM", **settings), "causal-lm", [[3, 14, 15, 9, 2, 6], [5, 35, 8]]
    )
    truth, found = read_back(observation, batch)
    assert found == truth


def test_roberta_is_read_exactly() -> None:
    """Its positions begin after that of the padding."""
    model = make("Roberta", "SequenceClassification", max_position_embeddings=64)
    observation, batch = observe(model, "classification", [[3, 14, 15, 9, 2, 6], [5, 35, 8]])
    truth, found = read_back(observation, batch)
    assert found == truth
    assert observation.public.roles.names[Role.POSITION_EMBEDDING].endswith(
        "position_embeddings.weight"
    )
    assert first_position(observation.public) == 1
    assert sentence_lengths(observation) == (8, 8)


@torch.no_grad()
def test_an_encoder_with_one_projection_for_all_is_divided_as_it_divides_itself() -> None:
    model = make("Bert", "SequenceClassification")
    anatomy = Anatomy(model)
    heads = Heads(anatomy)
    given = anatomy.attend.given[0]
    separate = heads(given)
    weights = [cast(nn.Linear, module).weight.detach() for module in anatomy.attend.modules]
    by_head = torch.stack([w.view(4, 16, 64) for w in weights], dim=1).flatten(0, 2)
    fused = nn.Linear(64, 192, bias=False)
    for layout in (torch.cat(weights), by_head):
        fused.weight.data = layout
        anatomy.attend.modules[:] = [fused]
        assert all(
            torch.allclose(a, b, atol=1e-5)
            for a, b in zip(Heads(anatomy)(given), separate, strict=True)
        )


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_understood_is_refused_with_the_reason(kind: str) -> None:
    name, head, settings, reason = REFUSED[kind]
    with pytest.raises(NoAttention, match=reason):
        understood(make(name, head, **settings))


def understood(model: Any) -> None:
    """All that an attack asks of a model's structure."""
    anatomy = Anatomy(model)
    entry_of(anatomy, 8)
    Heads(anatomy)
