"""How the models `trained:<name>` are made: everything their weights depend on, as data.

All of them learn from public rows of a corpus alone, so no private sentence was ever seen. The
same machine and libraries give the same bits; `CHECKSUMS` has those behind the published
results, and a model with another one gives results of its own, told apart by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.suites import ObjectiveName


@dataclass(frozen=True)
class TrainingRecipe:
    """A training that turns a base into a model of a task."""

    base: str
    """Model reference; empty for a random start in the shape of `marian_shape`. Of a base beside a
    width only the tokenizer is taken, and the start is random in the shape of `gpt2_shape`."""
    objective: ObjectiveName
    corpus: str
    """Reference of the corpus whose public rows are read."""
    steps: int
    rate: float
    batch_size: int = 32
    warmup: int = 20
    seed: int = 0
    labels: int = 0
    max_tokens: int = 64
    vocabulary: int = 0
    """Of a random start: types that its tokenizer learns from the public rows."""
    width: int = 0
    layers: int = 0
    """Of a random start: width, and layers (of encoder and decoder each)."""


CLASSIFIED = ("cola", "sst2", "rotten-tomatoes")
READ = ("wikitext", "enron", "imdb", "agnews")

RECIPES: Mapping[str, TrainingRecipe] = {
    **{
        f"minilm-{corpus}": TrainingRecipe(
            "package:minilm", "classification", f"data:{corpus}", 300, 5e-5, seed=41, labels=2
        )
        for corpus in CLASSIFIED
    },
    **{
        f"mpnet-{corpus}": TrainingRecipe(
            "package:mpnet", "classification", f"data:{corpus}", 100, 3e-5, seed=42, labels=2
        )
        for corpus in CLASSIFIED
    },
    **{
        f"smollm2-{corpus}": TrainingRecipe(
            "package:smollm2", "causal-lm", f"data:{corpus}", 60, 3e-5, 8, seed=43, max_tokens=42
        )
        for corpus in READ
    },
    "gpt2-wordpiece": TrainingRecipe(
        *("package:minilm", "causal-lm", "data:cola", 600, 1e-3, 32, 60),
        seed=46,
        width=256,
        layers=4,
    ),
    "marian-iwslt": TrainingRecipe(
        *("", "translation", "data:iwslt", 300, 1e-3, 24, 60),
        seed=44,
        vocabulary=8000,
        width=256,
        layers=3,
    ),
    "marian-iwslt-paper": TrainingRecipe(
        *("", "translation", "data:iwslt", 20_000, 5e-4, 64, 4000),
        seed=45,
        max_tokens=128,
        vocabulary=16_594,
        width=512,
        layers=6,
    ),
}
"""Two epochs of MiniLM; MPNet and SmolLM2 take several seconds a step, and so take fewer."""

CHECKSUMS: Mapping[str, str] = {
    "gpt2-wordpiece": "e0da35e12804051da76934cf996bd526cafe0df80f0a74e977aa0092af417b91",
    "marian-iwslt": "819ad377d9708d496cdbe218f73fa469cfba47ea1f212aaa8e8433abc8d8922f",
    "minilm-cola": "e77597f926a76970a8fcee1293016f075beba417e2fd8827a343ed273de8ef28",
    "minilm-rotten-tomatoes": "1a8ccea44890203878c223c13e7b555a4e740f9b045b0edda4119af3aa840749",
    "minilm-sst2": "fbc1615fbdfb7c3dd7a7b73c4407a3b865ff08f561b228ecf15657a0657a8ee3",
    "mpnet-cola": "53d4da4c0470826ebca17ba09329909612186eb1abe4c7853c9eb6e7790f3c2c",
    "mpnet-rotten-tomatoes": "9a328908c3eb30e7e624b85226fb1b2efe7a0c68d17329b24bc4615f6b8074bc",
    "mpnet-sst2": "66f1fff27b21ec71b7e37f2f4de321f6f1cdf338e0ad1dab64f9c33b6bfec40a",
    "smollm2-agnews": "bab4faf27f63017bcb0ad5653057eaa4cc1760a5d6b15e849ad5275a34a67721",
    "smollm2-enron": "67e5d49a1111b7223feb7f1d9b2968772873936c2bd79cdb28dd438b449fbef6",
    "smollm2-imdb": "995d2ea079d5bce57ac47fd61649ea4b1fb90b83940f46d6d43baba26d587949",
    "smollm2-wikitext": "bfe4261d05d62896bab0acc06d3fb95159e0432c9e54d72d96d59b900e76632b",
}
"""Of the models that published results were made with."""


def gpt2_shape(recipe: TrainingRecipe, vocabulary: int) -> dict[str, object]:
    """A small GPT-2, its embeddings tied as in the real one."""
    return {
        "vocab_size": vocabulary,
        "n_positions": 128,
        "n_embd": recipe.width,
        "n_layer": recipe.layers,
        "n_head": recipe.width // 64,
        "activation_function": "gelu_pytorch_tanh",
        "bos_token_id": None,
        "eos_token_id": None,
    }


def marian_shape(recipe: TrainingRecipe, vocabulary: int) -> dict[str, object]:
    """FLAT-CHAT's Transformer; source, target and output each have a table of their own.

    With a decoder embedding of its own, that gradient shows target tokens and nothing else.
    """
    return {
        "vocab_size": vocabulary,
        "d_model": recipe.width,
        **{f"{side}_layers": recipe.layers for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": recipe.width // 64 for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": 2 * recipe.width for side in ("encoder", "decoder")},
        "max_position_embeddings": 128,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "dropout": 0.1,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": 1,
    }
