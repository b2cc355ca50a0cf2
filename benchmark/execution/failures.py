"""What an exception inside a worker counts as, and how it is told in one sentence."""

from __future__ import annotations

from benchmark.errors import InvalidUpdate
from benchmark.execution.events import encodable
from benchmark.spec import Unsupported
from benchmark.status import Status


def status_of(error: Exception) -> Status:
    """What a job or a part of it counts as after this error."""
    import torch

    if isinstance(error, Unsupported):
        return Status.UNSUPPORTED
    if isinstance(error, InvalidUpdate):
        return Status.INVALID
    short = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return Status.OUT_OF_MEMORY if short or "not enough memory" in str(error) else Status.ERROR


def reason_of(error: Exception) -> str:
    """The submission's own sentence, or the first line of what went wrong."""
    if isinstance(error, Unsupported | InvalidUpdate):
        return encodable(str(error))
    words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:500]
    return encodable(words)
