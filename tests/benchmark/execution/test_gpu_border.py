"""The few places where the harness speaks to a GPU, with a double of torch's own calls there."""

from __future__ import annotations

import pytest
import torch

from benchmark.errors import UserError
from benchmark.execution import devices, timing


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with two GPUs, which notes what it is asked."""
    asked: list[str] = []
    monkeypatch.setattr(devices, "GPU_DRIVERS", ("/dev/null",))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append(f"wait {device}"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    return asked


def test_cells_are_spread_over_the_gpus(two_gpus: list[str]) -> None:
    assert devices.choose("auto", 0)[0] == ["cuda:0", "cuda:1"][: len(devices.choose("cpu", 0)[0])]
    assert devices.choose("cuda:1", 1)[0] == ["cuda:1"]
    assert devices.choose("cpu", 1)[0] == ["cpu"]
    with pytest.raises(UserError, match="2 GPUs are visible"):
        devices.choose("cuda:2", 1)


def test_time_is_taken_with_the_queue_drained_before_and_after(two_gpus: list[str]) -> None:
    device = torch.device("cuda:1")
    with timing.Stopwatch(device) as watch:
        two_gpus.append("work")
    assert two_gpus == ["wait cuda:1", "work", "wait cuda:1"]
    assert watch.seconds >= 0
    assert timing.device_peak_mb(device) == 3


def test_a_cpu_is_never_waited_for(two_gpus: list[str]) -> None:
    device = torch.device("cpu")
    with timing.Stopwatch(device):
        pass
    assert two_gpus == []
    assert timing.device_peak_mb(device) is None
