"""Model folders of many architectures as a user would have them: tiny, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

START, PAD, END, UNKNOWN = range(4)  # where RoBERTa and MPNet have them
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
TEXTS = (
    "Alice Moore owes the bank 4711 crowns .",
    "Please call Bob on 5550199 before noon .",
    "The meeting in Lisbon was moved to Friday .",
    "Carol sold 12 boats to her uncle .",
    "My password is still the old one .",
    "Room 42 was never cleaned by David .",
    "Erika flies to Oslo with 3 bags .",
    "Nobody in Geneva has read the letter .",
)
SOURCES = tuple(text.lower() for text in TEXTS)
LABELS = (0, 1, 1, 0, 1, 0, 0, 1)

_BERT: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96,
    "max_position_embeddings": 48,
}  # fmt: skip
_OPT: dict[str, Any] = {"ffn_dim": 96, "word_embed_proj_dim": 64}
_T5: dict[str, Any] = {"d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_MARIAN: dict[str, Any] = {
    "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "max_position_embeddings": 48,
}  # fmt: skip

ARCHITECTURES: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("Bert", "classification", _BERT),
    "distilbert": ("DistilBert", "classification",
                   {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 96,
                    "max_position_embeddings": 48}),
    "roberta": ("Roberta", "classification", _BERT),
    "mpnet": ("MPNet", "classification", _BERT),
    "gpt2": ("GPT2", "causal-lm", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 48}),
    "llama": ("Llama", "causal-lm", {**_BERT, "num_key_value_heads": 2}),
    "opt": ("OPT", "causal-lm", {**_BERT, **_OPT}),
    "gpt_neox": ("GPTNeoX", "causal-lm", _BERT),
    "t5": ("T5", "translation", {**_T5, "decoder_start_token_id": PAD}),
    "marian": ("Marian", "translation", {**_MARIAN, "decoder_start_token_id": PAD}),
}  # fmt: skip
_CLASSES = {
    "classification": "ForSequenceClassification",
    "causal-lm": "ForCausalLM",
    "translation": "ForConditionalGeneration",
}
_OTHER_CLASSES = {"GPT2": "LMHeadModel", "Marian": "MTModel"}


def make_folder(folder: Path, kind: str) -> Path:
    """A complete model folder: configuration, safetensors, tokenizer."""
    make_model(kind).save_pretrained(str(folder))
    make_tokenizer(ARCHITECTURES[kind][1]).save_pretrained(str(folder))
    return folder


def make_model(kind: str) -> Any:
    """A model in eval mode whose weights are large enough to be told apart."""
    name, objective, shape = ARCHITECTURES[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(vocabulary()), pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
        attn_implementation="eager", **shape,
    )  # fmt: skip
    suffix = _OTHER_CLASSES.get(name, _CLASSES[objective])
    model = getattr(transformers, f"{name}{suffix}")(config).eval()
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight.requires_grad:
            nn.init.normal_(module.weight, std=0.1)
    return model


def vocabulary(texts: Sequence[str] = (*TEXTS, *SOURCES)) -> dict[str, int]:
    """Every word of the texts, behind the special tokens."""
    words = sorted({word for text in texts for word in text.split()})
    return {word: number for number, word in enumerate((*SPECIAL, *words))}


def make_tokenizer(objective: str) -> transformers.PreTrainedTokenizerFast:
    """Words between spaces; a classifier's text is framed, a translator's is ended."""
    inner = Tokenizer(models.WordLevel(vocabulary(), unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    frames = {"classification": "<s> $A </s>", "translation": "$A </s>"}
    if objective in frames:
        inner.post_processor = processors.TemplateProcessing(
            single=frames[objective], special_tokens=[("<s>", START), ("</s>", END)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", cls_token="<s>", sep_token="</s>", model_max_length=48,
    )  # fmt: skip


def gradients(model: Any, texts: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """What a training loop of one's own computes: the mean of the sentences' losses."""
    tokenizer = make_tokenizer("causal-lm")
    rows = [[0, *tokenizer(text).input_ids, 2] for text in texts]
    losses = [model(input_ids=torch.tensor([r]), labels=torch.tensor([r])).loss for r in rows]
    names, parameters = zip(*model.named_parameters(), strict=True)
    values = torch.autograd.grad(torch.stack(losses).mean(), parameters)
    return dict(zip(names, values, strict=True))
