"""Which devices cells run on, and how many threads each may use."""

from __future__ import annotations

import os
import sys

from benchmark.errors import UserError

GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Device files of NVIDIA's driver, of AMD's, and of Windows' under Linux."""


def choose(device: str, jobs: int) -> tuple[list[str], int]:
    """One device for each cell that runs at once, and threads so that jobs × threads ≤ cores.

    Where nobody says how many jobs, `LEAKBOARD_JOBS` does; `OMP_NUM_THREADS` bounds the threads.
    """
    jobs = jobs or _variable("LEAKBOARD_JOBS")
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    gpus = [] if device == "cpu" else _gpus(device)
    if gpus:
        selected = [gpus[i % len(gpus)] for i in range(min(jobs or len(gpus), cores))]
    else:
        selected = ["cpu"] * min(jobs or cores, cores)
    threads = max(1, cores // len(selected))
    return selected, min(threads, _variable("OMP_NUM_THREADS") or threads)


def _variable(name: str) -> int:
    """A whole number from the environment; 0 where it says nothing."""
    text = os.environ.get(name, "").partition(",")[0].strip()
    if text and not text.isdecimal():
        raise UserError(f"{name} is {text!r}; set it to a whole number, or unset it.")
    return int(text or 0)


def _gpus(device: str) -> list[str]:
    """GPUs that a device name stands for; none where `auto` finds none."""
    name, _, number = device.partition(":")
    if name not in ("auto", "cuda") or (number and not number.isdigit()):
        raise UserError(f"{device!r} is not a device; use auto, cpu, cuda or cuda:N.")
    count = _visible()
    if device == "auto":
        return [f"cuda:{i}" for i in range(count)]
    if count == 0 or (number and int(number) >= count):
        raise UserError(f"{device} was asked for, but {count} GPUs are visible; use --device cpu.")
    return [device] if number else [f"cuda:{i}" for i in range(count)]


def _visible() -> int:
    """GPUs that torch can use; a Linux without their device files is known not to have any."""
    if sys.platform == "linux" and not any(map(os.path.exists, GPU_DRIVERS)):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
