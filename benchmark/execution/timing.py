"""Device-aware timing and peak memory."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from benchmark.execution.accelerator import accelerator

if TYPE_CHECKING:
    import torch


class Stopwatch:
    """Time of a block by the device's clock, with its queues drained before and after."""

    def __init__(self, device: torch.device) -> None:
        self.accelerator = accelerator(device)
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self.accelerator.wait()
        self._start = self.accelerator.mark()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.accelerator.wait()
        self.seconds = self.accelerator.seconds(self._start, self.accelerator.mark())


def process_peak_mb() -> float:
    """Largest resident size of this process so far, in MiB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def device_peak_mb(device: torch.device) -> float | None:
    """Largest amount of device memory that tensors took so far, in MiB; None on a CPU."""
    return accelerator(device).peak_mb()
