"""`leakboard doctor`: what this machine offers, and what to do about what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil

from benchmark.cli import text
from benchmark.execution import namespaces, sandbox, seccomp
from benchmark.metrics.entities import PIPELINE
from benchmark.paths import cache_directory, data_directory
from benchmark.plugins.registry import weight_packages


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    topic: str
    fine: bool
    sentence: str


def examine() -> Iterator[Finding]:
    """Everything worth knowing before a run."""
    yield _sandbox()
    yield Finding("cores", True, f"{os.cpu_count()} cores, {_gigabytes(_memory())} of memory")
    yield _devices()
    yield _disk()
    yield _data()
    yield from _packages()
    yield _browser()


def report(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings as lines; what deserves a look is marked."""
    for finding in findings:
        start = f"{'ok ' if finding.fine else 'LOOK'} {finding.topic}: "
        yield from text.wrapped(f"{start}{finding.sentence}", "", "     ")


def _sandbox() -> Finding:
    kind = sandbox.sandbox_kind()
    layers = [
        words
        for words, there in (
            ("namespaces of its own", namespaces.available()),
            ("a filter of system calls", seccomp.available()),
        )
        if there
    ]
    jobs = f"; every job has {' and '.join(layers)}" if layers else ""
    if kind == sandbox.AUDIT_HOOK:
        words = "an audit hook only, which does not contain native code; install bubblewrap"
        return Finding("sandbox", False, words + jobs)
    return Finding("sandbox", bool(layers), f"{kind}{jobs}")


def _devices() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("devices", True, f"{len(names)} GPU: {', '.join(names)}")
    return Finding("devices", True, "no GPU; mini runs well without, paper does not")


def _disk() -> Finding:
    folder = cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    sentence = f"{_gigabytes(free)} free for the cache in {folder} (`open` takes hundreds)"
    return Finding("disk", free > 2 * 2**30, sentence)


def _data() -> Finding:
    folder = data_directory()
    if folder is None:
        return Finding("corpora", True, "LEAKBOARD_DATA is not set; only `open` needs it")
    there = len(list(folder.glob("*.jsonl"))) if folder.is_dir() else 0
    return Finding("corpora", there > 0, f"{there} files of JSON Lines in {folder}")


def _packages() -> Iterator[Finding]:
    needed = {
        package: f"weights for {len(tasks)} tasks such as {tasks[0].name}"
        for package, tasks in weight_packages().items()
    }
    for name, use in (needed | {PIPELINE.replace("_", "-"): "entities of real text"}).items():
        try:
            version = importlib.metadata.version(name)
            yield Finding("packages", True, f"{name} {version}: {use}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding("packages", True, f"{name} is not installed ({use}); `make open` does it")


def _browser() -> Finding:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    word = "found" if found else "not found: the browser tests are skipped"
    return Finding("browser", True, f"chromium {word}")


def _memory() -> int:
    return int(psutil.virtual_memory().total)


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.0f} GB"
