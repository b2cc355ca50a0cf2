"""Device-aware timing and peak memory."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Stopwatch:
    """Wall time of a block, with the device's queue drained before and after."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        synchronize(self.device)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        synchronize(self.device)
        self.seconds = time.perf_counter() - self._start


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything it was asked to do."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def process_peak_mb() -> float:
    """Largest resident size of this process so far, in MiB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def device_peak_mb(device: torch.device) -> float | None:
    """Largest amount of device memory that tensors took so far, in MiB; None on a CPU."""
    if device.type != "cuda":
        return None
    import torch

    return float(torch.cuda.max_memory_allocated(device)) / 2**20
