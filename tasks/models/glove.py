"""A BiLSTM whose word vectors are GloVe's: the commonest words, vectors published, the rest fresh.

FedeVocab starts its BiLSTM so. The wheel holds an array and a list of words; neither is unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmark.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 20_000
"""The commonest of GloVe's 400,000, which cover all but a few percent of news text."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WIDTH, STATES = 50, 100
SPREAD = 0.1
"""Of the fresh weights of the recurrence."""
VECTORS, INDEX = "data/glove_6B_50d_emb.npy", "data/glove_6B_index.parquet"


def write_bilstm(package: Path, folder: Path) -> None:
    """Configuration, tokenizer and weights as a folder that transformers opens."""
    from safetensors.numpy import save_file

    words = _words(package / INDEX)[: WORDS - len(SPECIAL)]
    vectors = np.load(package / VECTORS, mmap_mode="r", allow_pickle=False)[: len(words)]
    draw = np.random.Generator(np.random.PCG64(0))
    weights = {"embed_tokens.weight": _table(vectors, draw)}
    for side in ("forwards", "backwards"):
        weights |= {f"{side}.{name}": value for name, value in _direction(draw).items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    _write(folder / "config.json", _CONFIG)
    _write(folder / "tokenizer.json", _tokenizer([*SPECIAL, *words]))
    _write(folder / "tokenizer_config.json", _TOKENIZER)


def _words(path: Path) -> list[str]:
    try:
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise UserError("The package pyarrow is not installed; run `make open`.") from error
    words: list[str] = read_table(path, columns=["index"])["index"].to_pylist()
    return words


def _table(vectors: NDArray[np.float32], draw: np.random.Generator) -> NDArray[np.float32]:
    """Padding is zero, other special tokens are drawn with the spread of the words."""
    special = draw.standard_normal((len(SPECIAL), WIDTH)) * vectors.std()
    special[0] = 0.0
    return np.concatenate([special.astype(np.float32), vectors]).astype(np.float32)


def _direction(draw: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Fresh weights of one direction."""
    shapes = {
        "input_map.weight": (4 * STATES, WIDTH),
        "input_map.bias": (4 * STATES,),
        "state_map.weight": (4 * STATES, STATES),
    }
    return {
        name: (draw.standard_normal(shape) * SPREAD).astype(np.float32)
        for name, shape in shapes.items()
    }


def _tokenizer(words: list[str]) -> dict[str, object]:
    """Whole words in lower case, punctuation on its own, between [CLS] and [SEP]."""
    ids = {token: number for number, token in enumerate(words)}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    frame = {name: {"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]")}
    template = [frame["[CLS]"], {"Sequence": {"id": "A", "type_id": 0}}, frame["[SEP]"]]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[token], "content": token, **flags, "special": True} for token in SPECIAL
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": False,
            "strip_accents": True,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": template,
            "special_tokens": {
                name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in frame
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


_CONFIG = {
    "architectures": ["BiLSTMModel"],
    "dropout": 0.5,
    "dtype": "float32",
    "hidden_size": WIDTH,
    "initializer_range": SPREAD,
    "model_type": "leakboard-bilstm",
    "pad_token_id": 0,
    "state_size": STATES,
    "vocab_size": WORDS,
}
_TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "clean_up_tokenization_spaces": False,
    "model_max_length": 512,
}
