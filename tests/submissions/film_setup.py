"""Observations of builtin and tiny language models for the tests of FILM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from benchmark.spec import Client, Observation, Public
from submissions.blocks.film.language import Continuations
from tasks.models.loading import open_model
from tasks.models.materialize import locate
from tasks.models.priors import self_prior
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES

TEXTS = ("The town grew rapidly after the railway reached it in 1889.",)
MORE = (*TEXTS, "The female lays 6 eggs in April, and the young hatch after 15 days.")


def make_public(name: str = "gpt2-finetuned", batch_size: int = 1) -> Public:
    """A builtin language model as everyone knows it; `llama` is a tied rotary one, untrained."""
    source = "gpt2-finetuned" if name == "llama" else name
    loaded, tokenizer = open_model(locate(f"builtin:{source}"), "causal-lm", "float32", "cpu")
    model: Any = _llama(len(tokenizer)) if name == "llama" else loaded
    return Public(
        task="tests/film", objective=OBJECTIVES["causal-lm"], model=model, tokenizer=tokenizer,
        roles=roles(model), batch_size=batch_size, batch_tokens=None, max_tokens=40,
        grants=frozenset(), text=(), prior=self_prior(model, tokenizer),
        device=torch.device("cpu"), seed=0,
    )  # fmt: skip


def _llama(vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def observe(public: Public, texts: Sequence[str] = TEXTS, **known: Any) -> Observation:
    """The plain gradient of a batch of texts."""
    batch = public.objective.encode(public.tokenizer, list(texts), None, None, 40)
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    update = client.update(batch, [name for name, _ in public.model.named_parameters()])
    return Observation(public, update, len(texts), seed=0, **known)


def ids_of(public: Public, text: str) -> list[int]:
    """Token ids without special tokens."""
    return list(public.tokenizer(text, add_special_tokens=False).input_ids)


class PlainContinuations(Continuations):
    """No cache, one beam at a time, log-softmax over the whole vocabulary."""

    def __init__(self, model: torch.nn.Module, words: Tensor, end: int) -> None:
        self.model, self.words, self.end = model, words, end
        self.ids: Tensor | None = None

    @torch.inference_mode()
    def step(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Every beam from its first token on."""
        if self.ids is None:
            self.ids = tokens[:, None]
        else:
            self.ids = torch.cat([self.ids[parents], tokens[:, None]], dim=1)
        rows = [
            self.model(input_ids=row[None], use_cache=False).logits.log_softmax(dim=-1)[0, -1]
            for row in self.ids
        ]
        chances = torch.stack(rows)  # (K, V)
        return chances[:, self.words], chances[:, self.end]
