"""Where a result came from: code, packages, hardware."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import psutil

from benchmark.execution import sandbox
from benchmark.paths import ROOT
from benchmark.results.schema import Provenance
from benchmark.runs.plan import Cell

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


def provenance(cell: Cell, device: str, threads: int) -> Provenance:
    """Everything needed to repeat a cell."""
    defense = cell.defense.digest(cell.task)
    tf32 = cell.attack.entry.allow_tf32 and device != "cpu"
    return origin(cell.fingerprint, cell.attack.entry.digest, defense, device, threads, tf32)


def origin(
    fingerprint: str, attack: str, defense: str, device: str, threads: int, tf32: bool = False
) -> Provenance:
    """The same from its parts; `attack` and `defense` are digests of code."""
    commit, dirty = git_state()
    return Provenance(
        fingerprint=fingerprint,
        attack_digest=attack,
        defense_digest=defense,
        git_commit=commit,
        git_dirty=dirty,
        packages=versions(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        processor=processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        device=device,
        threads=threads,
        tf32=tf32,
        sandbox=sandbox.sandbox_kind(),
        created=datetime.now(UTC).replace(microsecond=0),
    )


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
def git_state() -> tuple[str, bool]:
    """Commit of the code and whether the code packages differ from it; empty outside a checkout."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "benchmark", "tasks", "submissions")
    return commit, bool(changed)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
