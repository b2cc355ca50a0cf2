"""All that the harness asks of a GPU, behind an interface small enough for a test double.

A test can put a double in place of torch's calls here, and nowhere else, to see how the harness
times, measures and sets up a GPU on a machine that has none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class Accelerator(Protocol):
    """A device that may work through a queue of its own."""

    def wait(self) -> None:
        """Return once the device has done everything that it was asked to do, in all queues."""

    def mark(self) -> Any:
        """A point in the device's time: now, once everything before it is done."""

    def seconds(self, first: Any, last: Any) -> float:
        """Time between two marks, by the device's own clock."""

    def peak_mb(self) -> float | None:
        """Largest amount of its memory that tensors took so far, in MiB; None where it has none."""


class Processor:
    """The CPU: no queue, no memory of its own, and the wall clock."""

    def wait(self) -> None:
        """Nothing is ever under way."""

    def mark(self) -> float:
        """The wall clock."""
        return time.perf_counter()

    def seconds(self, first: float, last: float) -> float:
        """Wall time."""
        return last - first

    def peak_mb(self) -> None:
        """Part of the process's memory."""


class Cuda:
    """An NVIDIA GPU, timed by events.

    An event is stamped by the GPU when the work before it is done. Between two of them lies all
    that was computed, on the GPU and on the CPU meanwhile, without the time that a thread takes to
    wake up from waiting.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wait(self) -> None:
        """Wait for all streams, so that nothing is hidden in one that is not timed."""
        import torch

        torch.cuda.synchronize(self.device)

    def mark(self) -> torch.cuda.Event:
        """An event at the end of the queue."""
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds(self, first: torch.cuda.Event, last: torch.cuda.Event) -> float:
        """Events count milliseconds."""
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000

    def peak_mb(self) -> float:
        """As torch's allocator counts it."""
        import torch

        return float(torch.cuda.max_memory_allocated(self.device)) / 2**20


def accelerator(device: torch.device) -> Accelerator:
    """What stands behind a device."""
    return Cuda(device) if device.type == "cuda" else Processor()


def compute_exactly() -> None:
    """Float32 means float32 on a GPU: neither TF32 nor autocast, whatever torch's defaults are.

    cuDNN, which recurrent layers use, has TF32 on unless it is told otherwise. An attack that
    declares `allow_tf32` gets it for its own process, and its record says so.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_autocast_enabled("cuda", False)
