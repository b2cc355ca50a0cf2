"""Brings faults about for as long as it is told, and prints what was tried and what held.

    python -m tests.soak --minutes 20 [--only NAME] [--seed N]

Every fault is a test of its own. The list is gone through again and again, each time with seeds
that have not been used, until the time is up; nothing is begun that could not end in time. Of
`make soak`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

LANES = 2
"""Faults at once."""
SEEDS = 1000
"""Between the seeds of one turn and those of the next."""
FAULTS = "tests/faults"
WORKER = "tests/benchmark/execution/test_worker.py"
RAY = "tests/benchmark/execution/test_ray.py"


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, and the tests that bring it about."""

    name: str
    tests: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables: how often."""
    words: str = ""
    """Selects among the tests."""
    guess: float = 60.0
    """Seconds that it takes, until one has been timed."""


FUZZ = (f"{FAULTS}/test_fuzz.py",)
FILES = Fault("1,000 damaged files", FUZZ, {"LEAKBOARD_FUZZ_FILES": "1000"}, "damaged_files", 30)
LINES = Fault("100 odd command lines", FUZZ, {"LEAKBOARD_FUZZ_LINES": "100"}, "command_lines", 60)
FIVE = {"LEAKBOARD_KILLS": "5"}
KILLED = (f"{FAULTS}/test_kills.py",)
KILLS = Fault("5 kills of the run", KILLED, FIVE, "random_moments", 120)
LIST = (
    FILES,
    KILLS,
    LINES,
    Fault("damaged cache", (f"{FAULTS}/test_damaged_cache.py",)),
    Fault("killed fork server", (f"{FAULTS}/test_lost_server.py",)),
    Fault("5 kills of a run on Ray", KILLED, FIVE, "ray_cluster", 180),
    Fault("Ray: lost nodes, lost jobs, weak nodes", (RAY,), guess=180),
    Fault("full disk", (f"{FAULTS}/test_full_disk.py",), guess=120),
    Fault("read-only folders", (f"{FAULTS}/test_read_only.py",)),
    Fault("two runs at once", (f"{FAULTS}/test_two_runs.py",)),
    Fault("broken download, wrong hash", (f"{FAULTS}/test_download.py",), guess=20),
    Fault("clock set back", (f"{FAULTS}/test_clock.py",)),
    Fault("time limit and memory limit", (WORKER,), words="hang or memory_is"),
    *(9 * [KILLS]),
    *(4 * [LINES]),
)
"""Once through: 50 kills, 1,000 files and 500 command lines among the rest."""


@dataclass
class Tally:
    """What has become of one fault so far."""

    tried: int = 0
    held: int = 0
    skipped: int = 0
    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0
    """Of the longest try, or guessed."""


class Soak:
    """Faults in several lanes until the time is up."""

    def __init__(self, minutes: float, only: str, seed: int) -> None:
        self.deadline = time.monotonic() + 60 * minutes
        chosen = [fault for fault in LIST if only in fault.name]
        self.tallies = {fault.name: Tally(seconds=fault.guess) for fault in chosen}
        self._turns = self._endless(chosen, seed)
        self._lock, self._begun = threading.Lock(), False

    def _endless(self, chosen: list[Fault], seed: int) -> Iterator[tuple[Fault, int]]:
        for turn in count():
            for place, fault in enumerate(chosen):
                yield fault, seed + SEEDS * (turn * len(chosen) + place)

    def run(self) -> bool:
        """Go through the list; whether everything held."""
        lanes = [threading.Thread(target=self._lane) for _ in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        self._report()
        return all(tally.held == tally.tried for tally in self.tallies.values())

    def _next(self) -> tuple[Fault, int] | None:
        """What comes next and ends in time; one fault is tried even if there is none."""
        with self._lock:
            for _ in range(len(LIST)):
                fault, seed = next(self._turns)
                tally, left = self.tallies[fault.name], self.deadline - time.monotonic()
                if left > tally.seconds or not self._begun:
                    self._begun = True
                    tally.seeds.append(seed)
                    return fault, seed
            return None

    def _lane(self) -> None:
        while (turn := self._next()) is not None:
            self._try(*turn)

    def _try(self, fault: Fault, seed: int) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *fault.tests]
        command += ["-k", fault.words] if fault.words else []
        own = {"LEAKBOARD_SOAK": "1", "LEAKBOARD_SEED": str(seed), "OMP_NUM_THREADS": "1"}
        start = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env=os.environ | own | fault.settings,
        )  # fmt: skip
        took = time.monotonic() - start
        with self._lock:
            self._count(fault, seed, done, took)

    def _count(
        self, fault: Fault, seed: int, done: subprocess.CompletedProcess[str], took: float
    ) -> None:
        tally, held = self.tallies[fault.name], done.returncode == 0
        tally.tried, tally.held = tally.tried + 1, tally.held + held
        tally.seconds = took if tally.tried == 1 else max(tally.seconds, took)
        last = done.stdout.strip().splitlines()[-1:] or [""]
        verdict = "held" if held else "FAILED"
        print(f"{verdict:6} {took:5.0f} s  seed {seed:6}  {fault.name}  {last[0]}", flush=True)
        if not held:
            settings = " ".join(f"{k}={v}" for k, v in fault.settings.items())
            again = f"LEAKBOARD_SOAK=1 LEAKBOARD_SEED={seed} {settings} pytest"
            print(f"{done.stdout}\n{done.stderr}\nRepeat it with {again} {' '.join(fault.tests)}")

    def _report(self) -> None:
        print("\ntried  held  seeds            what")
        for name, tally in self.tallies.items():
            seeds = f"{tally.seeds[0]} to {tally.seeds[-1]}" if tally.seeds else "–"
            print(f"{tally.tried:5}  {tally.held:4}  {seeds:15}  {name}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--only", default="", help="faults whose name has these words")
    parser.add_argument("--seed", type=int, default=None, help="the first seed")
    given = parser.parse_args()
    seed = int(time.time()) % 10**6 if given.seed is None else given.seed
    print(f"First seed {seed}; {given.minutes:g} minutes.", flush=True)
    sys.exit(0 if Soak(given.minutes, given.only, seed).run() else 1)


if __name__ == "__main__":
    main()
