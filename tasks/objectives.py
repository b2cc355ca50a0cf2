"""How text becomes a batch and a batch becomes a loss, for the three kinds of training.

Every loss is per sample (a sample's mean over its predicted tokens), so that per-sample clipping,
plain training and gradient matching all speak of the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.nn import functional

from benchmark.spec import Batch, Objective

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""Label of a position where nothing is predicted."""

_COUNTS_POSITIONS_FROM_ZERO = frozenset({"albert", "bert", "distilbert", "electra", "gpt2"})
"""Model types with learned positions 0, 1, 2 ... that they create for one row and broadcast."""


class TextObjective(Objective):
    """An objective that also knows which model class it trains."""

    auto_class: ClassVar[str]
    """Name of the transformers class that loads a model for this objective."""


class CausalLanguageModeling(TextObjective):
    """Predict each token from those before it; the first one is not predicted."""

    name = "causal-lm"
    auto_class = "AutoModelForCausalLM"

    def losses(
        self, model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """Mean cross-entropy per sample; the labels always come from the batch."""
        logits = model(**model_inputs(model, batch, inputs_embeds)).logits  # (B, T, V)
        return token_losses(logits[:, :-1], batch.labels[:, 1:])

    def encode(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        labels: Sequence[int] | None,
        sources: Sequence[str] | None,
        max_tokens: int,
    ) -> Batch:
        """`<start> text <end>`, so that the first word and the end are predicted too."""
        start, end = boundary_ids(tokenizer)
        space = max_tokens - len(start) - len(end)
        plain = tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
        rows = [[*start, *ids[:space], *end] for ids in plain]
        input_ids, mask = pad(rows, padding_id(tokenizer))
        return Batch(input_ids, mask, input_ids.masked_fill(mask == 0, IGNORED))


class Classification(TextObjective):
    """Predict one class for a text."""

    name = "classification"
    auto_class = "AutoModelForSequenceClassification"

    def losses(
        self, model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """Cross-entropy of the class of each sample."""
        logits = model(**model_inputs(model, batch, inputs_embeds)).logits  # (B, classes)
        return functional.cross_entropy(logits, batch.labels, reduction="none")

    def encode(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        labels: Sequence[int] | None,
        sources: Sequence[str] | None,
        max_tokens: int,
    ) -> Batch:
        """Texts between the special tokens that the tokenizer adds; class 0 where none is given."""
        rows = tokenizer(list(texts), truncation=True, max_length=max_tokens).input_ids
        input_ids, mask = pad(rows, padding_id(tokenizer))
        return Batch(input_ids, mask, torch.tensor(labels or [0] * len(texts)))


class Translation(TextObjective):
    """Predict the target sentence from the source sentence, each token given those before it."""

    name = "translation"
    auto_class = "AutoModelForSeq2SeqLM"

    def losses(
        self, model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """Mean cross-entropy per target; `inputs_embeds` replaces the source's embeddings."""
        inputs = model_inputs(model, batch, inputs_embeds)
        if inputs_embeds is not None:
            inputs["inputs_embeds"] = inputs_embeds * _source_scale(model)
        inputs["decoder_input_ids"] = shifted_targets(model, batch.labels)
        # No mask for the decoder: padding is on the right, where causal attention never looks.
        return token_losses(model(**inputs).logits, batch.labels)

    def encode(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        labels: Sequence[int] | None,
        sources: Sequence[str] | None,
        max_tokens: int,
    ) -> Batch:
        """Sources as input, `texts` as targets, both ended the way the tokenizer does it."""
        if sources is None:
            raise ValueError("translation needs a source sentence for every text")
        read = tokenizer(list(sources), truncation=True, max_length=max_tokens)
        written = tokenizer(text_target=list(texts), truncation=True, max_length=max_tokens)
        input_ids, mask = pad(read.input_ids, padding_id(tokenizer))
        targets, _ = pad(written.input_ids, IGNORED)
        return Batch(input_ids, mask, targets)


OBJECTIVES: dict[str, TextObjective] = {
    objective.name: objective
    for objective in (CausalLanguageModeling(), Classification(), Translation())
}


# ------------------------------------------------------------------------------ building blocks


def token_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of each row over the labels that are not ignored, (B,)."""
    each = functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=IGNORED
    )  # (B * T,)
    predicted = (labels != IGNORED).sum(dim=1).clamp(min=1)  # (B,)
    return each.view(labels.shape).sum(dim=1) / predicted


def model_inputs(
    model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None
) -> dict[str, Tensor]:
    """Keyword arguments of a forward pass, every tensor expanded to the whole batch.

    Models create positions and token types for one row and broadcast them, which hides from
    per-sample gradients (Opacus) which sample used them. Spelled out, they do not.
    """
    inputs: dict[str, Tensor] = {"attention_mask": batch.attention_mask}
    if inputs_embeds is None:
        inputs["input_ids"] = batch.input_ids
    else:
        inputs["inputs_embeds"] = inputs_embeds
    config = configuration(model)
    if config.model_type in _COUNTS_POSITIONS_FROM_ZERO:
        length = batch.attention_mask.shape[1]
        positions = torch.arange(length, device=batch.attention_mask.device)
        inputs["position_ids"] = positions.expand_as(batch.attention_mask)  # (B, T)
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.zeros_like(batch.attention_mask)
    return inputs


def configuration(model: torch.nn.Module) -> Any:
    """The transformers configuration, also through a wrapper such as Opacus puts round a model."""
    return getattr(getattr(model, "_module", model), "config")  # noqa: B009 (Module has no such attribute)


def shifted_targets(model: torch.nn.Module, labels: Tensor) -> Tensor:
    """What the decoder reads: the start token, then the targets without their last token."""
    config = configuration(model)
    start = labels.new_full((labels.shape[0], 1), config.decoder_start_token_id)
    before = labels[:, :-1]
    return torch.cat([start, before.masked_fill(before == IGNORED, config.pad_token_id)], dim=1)


def boundary_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Ids before and after a text of a language model; a missing start token is the end token."""
    end = tokenizer.eos_token_id
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else end
    if start is None:  # a BERT-like vocabulary: [CLS] text [SEP]
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    return ([] if start is None else [start]), ([] if end is None else [end])


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Any id will do, since masks hide it; tokenizers without padding lend their end token."""
    for candidate in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if candidate is not None:
            return int(candidate)
    return 0


def pad(rows: Sequence[Sequence[int]], value: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor filled up on the right, and the mask of what is real, both (B, T)."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), value, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[index, : len(row)] = 1
    return ids, mask


def _source_scale(model: torch.nn.Module) -> float:
    """Marian's encoder scales embeddings it looks up but not those it is given."""
    config = configuration(model)
    scaled = config.model_type == "marian" and config.scale_embedding
    return float(config.d_model) ** 0.5 if scaled else 1.0
