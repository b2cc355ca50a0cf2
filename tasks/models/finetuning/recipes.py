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
class Recipe:
    """A training that turns a base into a model of a task."""

    base: str
    """Model reference; empty for a random start in the shape of `marian_shape`."""
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


CLASSIFIED = ("cola", "sst2", "rotten-tomatoes")
READ = ("wikitext", "enron", "imdb", "agnews")

RECIPES: Mapping[str, Recipe] = {
    **{
        f"minilm-{corpus}": Recipe(
            "package:minilm", "classification", f"data:{corpus}", 300, 5e-5, seed=41, labels=2
        )
        for corpus in CLASSIFIED
    },
    **{
        f"mpnet-{corpus}": Recipe(
            "package:mpnet", "classification", f"data:{corpus}", 100, 3e-5, seed=42, labels=2
        )
        for corpus in CLASSIFIED
    },
    **{
        f"smollm2-{corpus}": Recipe(
            "package:smollm2", "causal-lm", f"data:{corpus}", 60, 3e-5, 8, seed=43, max_tokens=42
        )
        for corpus in READ
    },
    "marian-iwslt": Recipe(
        "", "translation", "data:iwslt", 160, 1e-3, 16, 40, seed=44, vocabulary=8000
    ),
}
"""Two epochs of MiniLM; MPNet and SmolLM2 take several seconds a step, and so take fewer."""

CHECKSUMS: Mapping[str, str] = {}
"""Of the models that published results were made with."""


def marian_shape(vocabulary: int) -> dict[str, object]:
    """FLAT-CHAT's Transformer with half of its layers and width; each table is one of its own.

    With a decoder embedding of its own, that gradient shows target tokens and nothing else.
    """
    return {
        "vocab_size": vocabulary,
        "d_model": 256,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 512,
        "decoder_ffn_dim": 512,
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
