"""Tiny models, a tiny vocabulary and a tiny prior for the tests of gradient matching."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from benchmark.spec import Batch, Client, Observation, Public, Update
from submissions.blocks.sentences import special_tokens
from tasks.models.bilstm import BiLSTMConfig, BiLSTMForSequenceClassification
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES

WORDS = [f"word{i}" for i in range(40)]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
VOCABULARY = [*SPECIAL, *WORDS]
CLASSIFIERS = ("bert", "distilbert", "bilstm", "gpt2-classifier")
LANGUAGE_MODELS = ("gpt2", "gpt2-tied", "llama")
MODELS = ("bert", "distilbert", "bilstm", *LANGUAGE_MODELS)


def make_model(name: str, seed: int = 0, labels: int = 2) -> nn.Module:
    """A tiny model with random weights, as tasks open it: eval mode, eager attention."""
    torch.manual_seed(seed)
    size: dict[str, Any] = {"vocab_size": len(VOCABULARY), "attn_implementation": "eager"}
    tokens: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    bert: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    bert |= {"intermediate_size": 48, "max_position_embeddings": 20, "num_labels": labels}
    gpt2: dict[str, Any] = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 20}
    made: nn.Module
    config: Any  # transformers takes more arguments than its types say
    shape: dict[str, Any]
    if name == "bert":
        made = BertForSequenceClassification(BertConfig(**size, **bert))
    elif name == "distilbert":
        shape = {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, "num_labels": labels}
        config = DistilBertConfig(**size, **shape, max_position_embeddings=20)
        made = DistilBertForSequenceClassification(config)
    elif name == "bilstm":
        shape = {"hidden_size": 16, "num_labels": labels}
        config = BiLSTMConfig(vocab_size=len(VOCABULARY), **shape)
        config.state_size = 8
        made = BiLSTMForSequenceClassification(config)
    elif name == "gpt2-classifier":
        gpt2["num_labels"] = labels
        config = GPT2Config(**size, **gpt2, **tokens)
        made = GPT2ForSequenceClassification(config)
    elif name == "llama":
        shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
        shape |= {"intermediate_size": 48, "max_position_embeddings": 20}
        made = LlamaForCausalLM(LlamaConfig(**size, **shape, **tokens))
    else:
        tie = name == "gpt2-tied"
        made = GPT2LMHeadModel(GPT2Config(**size, **gpt2, **tokens, tie_word_embeddings=tie))
    for parameter in made.parameters():  # biases and scales away from 0 and 1, gradients of size
        parameter.data += 0.1 * torch.randn(parameter.shape)
    return made.eval()


def make_tokenizer(language_model: bool) -> PreTrainedTokenizerFast:
    """One token a word."""
    vocabulary = {word: i for i, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[MASK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if language_model:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token="[CLS]", eos_token="[SEP]", pad_token="[PAD]",
            mask_token="[MASK]",
        )  # fmt: skip
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        mask_token="[MASK]",
    )  # fmt: skip


class RisingPrior:
    """Likes sentences whose ids rise; remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        self.asked += len(sentences)
        falls = [[a > b for a, b in pairwise(ids)] for ids in sentences]
        return torch.tensor([sum(each) / max(1, len(each)) for each in falls])

    def sample(self, count: int, max_tokens: int, seed: int) -> list[list[int]]:
        return [[5]] * count

    def sample_many(self, draws: Sequence[tuple[int, int, int]]) -> list[list[list[int]]]:
        return [self.sample(*draw) for draw in draws]


def make_public(name: str, seed: int = 0, prior: bool = True, labels: int = 2) -> Public:
    """Everything an attacker knows before any update."""
    objective = "classification" if name in CLASSIFIERS else "causal-lm"
    model: Any = make_model(name, seed, labels)
    return Public(
        task="tests/tiny", objective=OBJECTIVES[objective], model=model,
        tokenizer=make_tokenizer(objective == "causal-lm"), roles=roles(model), batch_size=1,
        batch_tokens=None, max_tokens=12, grants=frozenset(), text=(),
        prior=RisingPrior() if prior else None, device=torch.device("cpu"), seed=0,
    )  # fmt: skip


def make_batch(public: Public, sentences: Sequence[str]) -> Batch:
    """Sentences as the task encodes them; classes 0, 1, 0, ..."""
    objective: Any = public.objective
    classes = [i % 2 for i in range(len(sentences))]
    batch: Batch = objective.encode(public.tokenizer, sentences, classes, None, public.max_tokens)
    return batch


def observe(
    public: Public, *sentences: str, known: bool = True, seed: int = 1, local_steps: int = 1
) -> Observation:
    """The update that an undefended client shares for a batch."""
    batch = make_batch(public, sentences)
    generator = torch.Generator().manual_seed(0)
    client = Client(
        public.model, public.objective, public.roles, generator, local_steps, learning_rate=0.01
    )
    update: Update = client.update(batch, [name for name, _ in public.model.named_parameters()])
    lengths = tuple(batch.attention_mask.sum(dim=1).tolist())
    is_classifier = public.objective.name == "classification"
    classes = tuple(batch.labels.tolist()) if is_classifier and known else None
    return Observation(
        public, update, len(sentences), seed, labels=classes, lengths=lengths if known else None
    )


def test_special_tokens_are_those_that_objectives_encode() -> None:
    for name in ("bert", "gpt2"):
        public = make_public(name)
        ids = make_batch(public, ["word3 word4"]).input_ids[0].tolist()
        before, after = special_tokens(public)
        assert [*before, len(SPECIAL) + 3, len(SPECIAL) + 4, *after] == ids
