"""The words for how a piece of work ended, shared by workers, runs and records."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a cell, or one snapshot of it, ended."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    INVALID = "invalid"
