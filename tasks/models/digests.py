"""A fingerprint of a model folder, so that records and caches name the exact weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

MODEL_FILES = (
    "config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "*.spm", "*.model",
)  # fmt: skip
"""What a model folder consists of: weights, configuration and tokenizer."""

_known: dict[tuple[str, int, int], str] = {}
"""Fingerprints of files by path, modification time and size, for the life of the process."""


def model_digest(directory: Path) -> str:
    """SHA-256 over the weights, configuration and tokenizer files, in hexadecimal."""
    files = sorted({path for pattern in MODEL_FILES for path in directory.glob(pattern)})
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name}\0{_file_digest(path)}\n".encode())
    return total.hexdigest()


def _file_digest(path: Path) -> str:
    state = path.stat()
    key = (str(path.resolve()), state.st_mtime_ns, state.st_size)
    if key not in _known:
        with path.open("rb") as stream:
            _known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _known[key]
