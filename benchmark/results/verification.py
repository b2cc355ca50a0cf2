"""The mark of a record that somebody has repeated: when, on what, and with which outcome."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from benchmark.errors import UserError
from benchmark.files import Packages, Strict, Text, file_digest, read_model, write_model
from benchmark.results.store import RECORD_SUFFIX, VERIFIED_SUFFIX

Agreement = Literal["same", "within interval"]


class Verification(Strict):
    """A repetition that agreed with a record."""

    schema_version: Literal[1] = 1
    record_digest: Text
    """sha256 of the record file that was repeated; a changed record needs verifying again."""
    agreement: Agreement
    date: datetime
    """UTC."""
    machine: Text
    """Processor and platform."""
    device: Text
    packages: Packages
    git_commit: Text


def verification_path(path: Path) -> Path:
    """The mark beside a record file."""
    return path.with_name(path.name.removesuffix(RECORD_SUFFIX) + VERIFIED_SUFFIX)


def mark(path: Path, verification: Verification | None) -> None:
    """Put a mark beside a record, or take the old one away."""
    if verification is None:
        verification_path(path).unlink(missing_ok=True)
    else:
        write_model(verification_path(path), verification)


def read_mark(path: Path) -> Verification | None:
    """The mark of a record file as it is now; None where there is none, or it is of another one."""
    beside = verification_path(path)
    try:
        found = read_model(beside, Verification) if beside.exists() else None
    except UserError:
        return None
    return found if found and found.record_digest == file_digest(path) else None
