"""How good a model is on the test splits: the numbers of `metrics.json`."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn import functional

from benchmark.execution.trainer import Translator, take
from benchmark.spec import Batch
from tasks.models.pretraining.masking import masked
from tasks.objectives import IGNORED, OBJECTIVES

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from tasks.corpora.base import Row

MAX_TOKENS = 96


def perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> float:
    """Exponential of the mean loss per predicted token, end of text counted."""
    objective = OBJECTIVES["causal-lm"]
    data = objective.encode(tokenizer, texts, None, None, MAX_TOKENS)
    total, tokens = 0.0, 0
    for batch in _batches(data):
        predicted = (batch.labels[:, 1:] != IGNORED).sum(dim=1)
        with torch.inference_mode():
            total += float((objective.losses(model, batch).double() * predicted).sum())
        tokens += int(predicted.sum())
    return math.exp(total / tokens)


def masked_perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> float:
    """Exponential of the mean loss over hidden words, hidden the same way every time."""
    data = OBJECTIVES["classification"].encode(tokenizer, texts, None, None, MAX_TOKENS)
    generator = torch.Generator().manual_seed(0)
    total, words = 0.0, 0
    for batch in _batches(data):
        ids, labels = masked(batch, len(tokenizer), generator)
        selected = labels != IGNORED  # (B, T)
        with torch.inference_mode():
            output = model.base_model(input_ids=ids, attention_mask=batch.attention_mask)
            logits = word_logits(model, output.last_hidden_state[selected])
            total += float(functional.cross_entropy(logits, labels[selected], reduction="sum"))
        words += int(selected.sum())
    return math.exp(total / words)


def word_logits(model: Any, states: Tensor) -> Tensor:
    """Masked-word logits of some positions, for BertForPreTraining and DistilBertForMaskedLM."""
    if hasattr(model, "cls"):
        logits: Tensor = model.cls.predictions(states)
    else:
        states = model.vocab_layer_norm(model.activation(model.vocab_transform(states)))
        logits = model.vocab_projector(states)
    return logits


def predictions(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> list[int]:
    """The most likely class of each text."""
    data = OBJECTIVES["classification"].encode(tokenizer, texts, None, None, MAX_TOKENS)
    found: list[int] = []
    for batch in _batches(data):
        with torch.inference_mode():
            output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
        found += output.logits.argmax(dim=1).tolist()
    return found


def accuracy(found: Sequence[int], true: Sequence[int]) -> float:
    """Share of right answers."""
    return sum(a == b for a, b in zip(found, true, strict=True)) / len(true)


def matthews(found: Sequence[int], true: Sequence[int]) -> float:
    """Matthews correlation, 0 for a constant answer."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(true, found))


def bleu(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]) -> float:
    """Corpus BLEU of greedy translations."""
    import sacrebleu

    sources = [row.source or "" for row in rows]
    targets = [row.text for row in rows]
    data = OBJECTIVES["translation"].encode(tokenizer, targets, None, sources, MAX_TOKENS)
    found: list[str] = []
    for batch in _batches(data):
        ids = cast(Translator, model).generate(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask,
            max_new_tokens=48, num_beams=1, do_sample=False,
        )  # fmt: skip
        found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return float(sacrebleu.corpus_bleu(found, [targets]).score)


def translation_perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]
) -> float:
    """Exponential of the mean loss per target token."""
    objective = OBJECTIVES["translation"]
    data = objective.encode(
        tokenizer, [r.text for r in rows], None, [r.source or "" for r in rows], MAX_TOKENS
    )
    total, tokens = 0.0, 0
    for batch in _batches(data):
        predicted = (batch.labels != IGNORED).sum(dim=1)
        with torch.inference_mode():
            total += float((objective.losses(model, batch).double() * predicted).sum())
        tokens += int(predicted.sum())
    return math.exp(total / tokens)


def _batches(data: Batch) -> list[Batch]:
    return [take(data, rows) for rows in torch.arange(len(data.input_ids)).split(64)]
