"""The few places where the harness speaks to a GPU, with a double of torch's own calls there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from benchmark.errors import UserError
from benchmark.execution import accelerator, devices, timing

GPU = torch.device("cuda:1")


class Event:
    """A double of a CUDA event: the GPU of `two_gpus` stamps it with its own milliseconds."""

    asked: list[str]

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        self.stamp = 250.0 * len(self.asked)
        self.asked.append(f"mark {stream}")

    def synchronize(self) -> None:
        self.asked.append("wait for mark")

    def elapsed_time(self, last: Event) -> float:
        return last.stamp - self.stamp


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with two GPUs, which notes what it is asked."""
    asked: list[str] = []
    monkeypatch.setattr(devices, "GPU_DRIVERS", ("/dev/null",))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append(f"wait {device}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "Event", type("Event", (Event,), {"asked": asked}))
    return asked


def test_cells_are_spread_over_the_gpus(two_gpus: list[str]) -> None:
    assert devices.choose("auto", 0)[0] == ["cuda:0", "cuda:1"][: len(devices.choose("cpu", 0)[0])]
    assert devices.choose("cuda:1", 1)[0] == ["cuda:1"]
    assert devices.choose("cpu", 1)[0] == ["cpu"]
    with pytest.raises(UserError, match="2 GPUs are visible"):
        devices.choose("cuda:2", 1)


def test_a_gpu_is_timed_by_its_own_events_between_drained_queues(two_gpus: list[str]) -> None:
    with timing.Stopwatch(GPU) as watch:
        two_gpus.append("work")
    waited, marked = "wait cuda:1", "mark cuda:1"
    assert two_gpus == [waited, marked, "work", waited, marked, "wait for mark"]
    assert watch.seconds == 0.75  # marks 1 and 4 of a GPU that stamps 250 ms apart
    assert timing.device_peak_mb(GPU) == 3


def test_time_is_taken_although_the_block_fails(two_gpus: list[str]) -> None:
    watch = timing.Stopwatch(GPU)
    with pytest.raises(ValueError, match="nothing"), watch:
        raise ValueError("nothing found")
    assert watch.seconds == 0.5


def test_a_cpu_is_never_waited_for(two_gpus: list[str]) -> None:
    device = torch.device("cpu")
    with timing.Stopwatch(device) as watch:
        pass
    assert two_gpus == []
    assert 0 <= watch.seconds < 60
    assert timing.device_peak_mb(device) is None


class SlowDevice:
    """A double of a device: work that is asked for is done when somebody waits."""

    def __init__(self) -> None:
        self.clock, self.queued = 100.0, 7.0

    def wait(self) -> None:
        self.clock, self.queued = self.clock + self.queued, 0.0

    def mark(self) -> float:
        return self.clock

    def seconds(self, first: float, last: float) -> float:
        return last - first

    def peak_mb(self) -> float:
        return 5.0


def test_work_of_before_is_not_charged_and_queued_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SlowDevice()
    monkeypatch.setattr(timing, "accelerator", lambda _: device)
    with timing.Stopwatch(GPU) as watch:
        device.queued = 3.0
    assert watch.seconds == 3.0


@pytest.fixture
def loose() -> Iterator[None]:
    """TF32 and autocast are on, and as they were afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.set_autocast_enabled("cuda", True)
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    torch.set_autocast_enabled("cuda", False)


@pytest.mark.usefixtures("loose")
def test_float32_is_float32() -> None:
    accelerator.compute_exactly()
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.is_autocast_enabled("cuda")
