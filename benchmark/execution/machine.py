"""The machine that a job ran on, as records tell it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from benchmark.execution import sandbox

PACKAGES = (
    "leakboard",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "scikit-learn",
    "rouge-score",
    "opacus",
    "sacrebleu",
)


@dataclass(frozen=True)
class Machine:
    """Hardware and software of one machine."""

    packages: dict[str, str]
    python: str
    platform: str
    processor: str
    cores: int
    memory_gb: float
    sandbox: str


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        packages=versions(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        processor=processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        sandbox=sandbox.sandbox_kind(),
    )


_handled: list[Machine] = []
"""Where the job ran whose outcome is being handled."""


@contextmanager
def handling_outcome_of(machine: Machine | None) -> Iterator[None]:
    """Records that are written meanwhile are of a job that ran on `machine`; None: on this one."""
    _handled.append(machine or this_machine())
    try:
        yield
    finally:
        _handled.pop()


def machine_of_outcome() -> Machine:
    """The machine that records are written of now."""
    return _handled[-1] if _handled else this_machine()


@cache
def versions() -> dict[str, str]:
    """Installed versions of the packages that results depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def processor() -> str:
    """The processor's own name, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
