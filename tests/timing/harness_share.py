"""Processor time of a command, by what took it.

`python -m tests.timing.harness_share make leaderboard` runs the command, looks at all processes
below it five times a second, and prints how much each kind of them took: jobs, which is what is
measured, the harness around them, and scores and pages.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

EVERY_SECONDS = 0.2
SERVERS = {"benchmark.execution.template": 2, "benchmark.execution.forkserver": 1}
"""How many generations of a tree that begins with such a process serve; those below them work."""
JOBS, HARNESS, PAGES = "jobs", "harness", "scores and pages"


def main(command: Sequence[str]) -> int:
    """Run the command and print the table; returns its exit code."""
    taken: dict[psutil.Process, float] = {}
    kinds: dict[psutil.Process, str] = {}
    with subprocess.Popen(command) as started:
        root = psutil.Process(started.pid)
        while started.poll() is None:
            for process in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):  # it has ended: what was seen last counts
                    times = process.cpu_times()
                    taken[process] = times.user + times.system
                    if kinds.get(process, HARNESS) == HARNESS:  # it may become another program
                        kinds[process] = kind_of(process)
            time.sleep(EVERY_SECONDS)
    whole = sum(taken.values()) or 1.0
    for kind in (JOBS, HARNESS, PAGES):
        seconds = sum(each for process, each in taken.items() if kinds.get(process) == kind)
        print(f"{kind:17} {seconds:8.1f} core-seconds  {seconds / whole:6.1%}")
    return started.returncode


def kind_of(process: psutil.Process) -> str:
    """Told from its command line and those of the processes above it."""
    lines = [" ".join(each.cmdline()) for each in (process, *process.parents())]
    for module, serving in SERVERS.items():
        generations = sum(module in line for line in lines)
        if generations:
            return JOBS if generations > serving else HARNESS
    pages = ("multiprocessing.spawn", "leakboard site", "leakboard score")
    return PAGES if any(words in lines[0] for words in pages) else HARNESS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
