"""Where a result came from: code, packages, hardware."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache

from benchmark.execution.machine import machine_of_outcome
from benchmark.paths import ROOT
from benchmark.results.schema import Provenance
from benchmark.runs.plan import Cell


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
        device=device,
        threads=threads,
        tf32=tf32,
        created=datetime.now(UTC).replace(microsecond=0),
        **asdict(machine_of_outcome()),
    )


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
