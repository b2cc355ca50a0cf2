"""Workers beside other programs: what a recovery costs where every core has something else to do.

A busy loop is pinned to each core, so that a thread of the recovery has half a core: its share of
the machine explains that everything takes twice as long as on idle cores, or longer where the cores
were not idle before. A recovery of one thread has nobody to wait for, so it shows what the share
explains in this very minute. One of two threads may take twice that, for the moments in which one
waits for the other that is not running. Threads that spin while they wait take far more, since the
one that spins keeps the other from the core.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.execution.sandbox import environment
from tests.timing.ratios import only_timed

SHARE = 1 / 2
"""Of a core that a thread of the recovery has beside a busy loop."""
AT_MOST = 2.0
"""Times what the share explains."""
ROUNDS = 5
LOOP = """
import os, sys, time
core, parent, end = int(sys.argv[1]), int(sys.argv[2]), time.monotonic() + 600
os.sched_setaffinity(0, {core})
while os.getppid() == parent and time.monotonic() < end:
    sum(range(10_000))
"""

Recover = Callable[[], float]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs to pin processes to cores")
def test_a_busy_machine_costs_at_most_twice_its_share(
    benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    """One thread and two, on idle cores and on busy ones in turn, and of each the median."""
    only_timed(benchmark)
    with recovering(1, tmp_path) as one, recovering(2, tmp_path) as two, busy_cores() as pause:
        idle: dict[int, list[float]] = {1: [], 2: []}
        busy: dict[int, list[float]] = {1: [], 2: []}

        def measure() -> None:
            for times, others in ((idle, False), (busy, True)):
                pause(not others)
                times[1].append(one())
                times[2].append(two())

        benchmark.pedantic(measure, rounds=ROUNDS)
    found = {threads: median(busy[threads]) / median(idle[threads]) for threads in (1, 2)}
    for threads, ratio in found.items():
        print(f"\n{threads} threads: {median(idle[threads]):.2f} s, busy {ratio:.2f} times that")
    benchmark.extra_info["ratios"] = {n: round(ratio, 2) for n, ratio in found.items()}
    assert found[2] <= AT_MOST * max(1 / SHARE, found[1])


@contextmanager
def recovering(threads: int, folder: Path) -> Iterator[Recover]:
    """A process in a worker's environment that answers how long a recovery took."""
    variables = environment(threads, "cpu", folder)
    variables["LEAKBOARD_CACHE"] = os.environ["LEAKBOARD_CACHE"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.timing.recovery_server", str(threads)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    ask, answer = process.stdin, process.stdout

    def recover() -> float:
        print(file=ask, flush=True)
        return float(answer.readline())

    try:
        assert answer.readline() == "ready\n"
        yield recover
    finally:
        process.kill()
        process.communicate()


@contextmanager
def busy_cores() -> Iterator[Callable[[bool], None]]:
    """A busy loop on each core that we may use; what is given pauses all of them or goes on."""
    loops = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(core), str(os.getpid())])
        for core in sorted(os.sched_getaffinity(0))
    ]

    def pause(paused: bool) -> None:
        for loop in loops:
            loop.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    try:
        yield pause
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
