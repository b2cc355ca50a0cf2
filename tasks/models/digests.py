"""A fingerprint of a model folder, so that records and caches name the exact weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmark.errors import UserError

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


CHECKSUM_FILE = "model.sha256"
"""File in a prepared folder that holds the fingerprint of the others."""


PREPARED_AGAIN = "delete the folder, and the next run prepares it again"


def write_checksum(directory: Path) -> None:
    """Note the fingerprint of a folder that was just prepared, in the folder itself."""
    (directory / CHECKSUM_FILE).write_text(model_digest(directory) + "\n", encoding="ascii")


def verify_checksum(directory: Path, remedy: str = PREPARED_AGAIN) -> Path:
    """The folder itself; refused where its files are not those that were prepared."""
    try:
        noted = (directory / CHECKSUM_FILE).read_bytes().strip()
    except OSError:
        noted = b""
    if noted != model_digest(directory).encode():
        raise UserError(
            f"{directory} is damaged: its files are not those that were stored; {remedy}."
        )
    return directory


def publish(scratch: Path, target: Path) -> None:
    """Checksum a prepared folder and give it its name, unless another process was faster."""
    write_checksum(scratch)
    scratch.chmod(0o755)
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # else it was, and wrote the same
            raise


def _file_digest(path: Path) -> str:
    state = path.stat()
    key = (str(path.resolve()), state.st_mtime_ns, state.st_size)
    if key not in _known:
        with path.open("rb") as stream:
            _known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _known[key]
