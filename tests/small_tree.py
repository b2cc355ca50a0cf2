"""A copy of the checkout with a suite of small tasks, for tests of whole commands.

Everything is as a user has it, in a folder of its own: submissions can be broken in it, and its
suite `tiny` takes seconds where `mini` takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PACKAGES = ("benchmark", "tasks", "submissions", "leaderboard")
SUITE = '''"""Tasks of `mini` with one snapshot and little to train on."""

from dataclasses import replace

from benchmark.suites import Pairing, Suite
from tasks.suites.mini import SUITE as MINI

LITTLE = dict(rows=64, epochs=1, batch_size=16, validation_rows=16, test_rows=24, checks=1)
TASKS = tuple(
    replace(task, name=task.name.replace("mini/", "tiny/"), snapshots=1,
            training=task.training and replace(task.training, **LITTLE),
            federation=task.federation and replace(task.federation, clients=8, sampled=2, rounds=2))
    for task in MINI.tasks
    if task.name.removeprefix("mini/") in {tasks!r}
)
SUITE = Suite(
    name="tiny",
    summary="One snapshot each.",
    tasks=TASKS,
    plan=tuple(Pairing(*line) for line in {plan!r}),
    utility=tuple(Pairing(task, defense=defense) for task, defense in {utility!r}),
)
'''


@dataclass(frozen=True)
class SmallTree:
    """A checkout of its own."""

    root: Path

    def write_suite(
        self,
        tasks: Sequence[str],
        plan: Sequence[tuple[str, str, str]],
        utility: Sequence[tuple[str, str]],
    ) -> None:
        """Tasks of `mini` by short name, and pairings of task, attack and defense."""
        text = SUITE.replace("{tasks!r}", repr(list(tasks))).replace("{plan!r}", repr(list(plan)))
        path = self.root / "tasks" / "suites" / "tiny.py"
        path.write_text(text.replace("{utility!r}", repr(list(utility))))

    def environment(self, **more: object) -> Mapping[str, str]:
        """Variables with which Python finds this tree and no other."""
        own = {"PYTHONPATH": str(self.root), "LEAKBOARD_SUBMISSIONS": ""}
        return os.environ | own | {name: str(value) for name, value in more.items()}

    def leakboard(self, *words: object, **more: object) -> subprocess.CompletedProcess[str]:
        """The command of this tree; keyword arguments are environment variables."""
        return subprocess.run(
            [sys.executable, "-m", "benchmark.cli", *map(str, words)],
            capture_output=True, text=True, check=False, timeout=600,
            cwd=self.root, env=self.environment(**more),
        )  # fmt: skip

    def make_leaderboard(self, **more: object) -> subprocess.CompletedProcess[str]:
        """`make leaderboard` on the suite `tiny`; keyword arguments are variables of make."""
        command = self.root / "bin" / "leakboard"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m benchmark.cli "$@"\n')
        command.chmod(0o755)
        given = {"BIN": "bin", "SUITE": "tiny"} | more
        return subprocess.run(
            ["make", "-o", ".venv/.ready", *(f"{k}={v}" for k, v in given.items()), "leaderboard"],
            capture_output=True, text=True, check=False, timeout=600,
            cwd=self.root, env=self.environment(),
        )  # fmt: skip


def copy_tree(target: Path) -> SmallTree:
    """The packages and the Makefile of this checkout, without results or caches."""
    made = {str(ROOT / "leaderboard"): ["results", "site"]}  # by running it, not part of it
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name,
            target / name,
            ignore=lambda folder, _: ["__pycache__", *made.get(folder, [])],
        )
    shutil.copy(ROOT / "Makefile", target)
    return SmallTree(target)
