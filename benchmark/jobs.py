"""What goes to a worker and what comes back, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

DESCRIBE_SECONDS = 120.0


@dataclass(frozen=True)
class Job:
    """One piece of work for a sandboxed process."""

    kind: Literal["describe", "update", "train", "evaluate", "recover"]
    payload: Mapping[str, Any]
    """What the worker is told; file names in it are relative to its inbox or outbox."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What the worker is given: name in the inbox, and where the file or folder lies."""
    time_limit: float = 600.0
    memory_limit_mb: float = 1e9
    label: str = ""
    """For the progress display."""


@dataclass
class Outcome:
    """How a job ended and everything it said."""

    job: Job
    status: str
    reason: str
    said: list[dict[str, Any]]
    log: str
    made: Path
    """Folder of the files that the job wrote; whoever handles the outcome may move them."""
    device: str

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the worker said under one heading."""
        return [event for event in self.said if event.get("event") == name]
