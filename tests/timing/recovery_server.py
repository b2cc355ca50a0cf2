"""A process that recovers one sentence of `mini/cola` by LAMP whenever it is asked to.

Started by `test_busy_machine.py` in a worker's own environment: it reads a line, recovers, and
answers with the seconds that took.
"""

from __future__ import annotations

import sys
import time

import torch

from benchmark.spec import Scalar
from submissions.attacks.lamp_cos import LampCos
from tests.timing.test_matching import cola

SETTINGS: dict[str, Scalar] = dict(LampCos.variants["lamp_cos_quick"]) | {
    "steps": 40, "initial_candidates": 4, "initial_permutations": 4, "discrete_candidates": 8
}  # fmt: skip


def main(threads: int) -> None:
    """Once to warm up, then once a line."""
    torch.set_num_threads(threads)  # as a worker does
    (observation, _), attack = cola(1)[0], LampCos(**SETTINGS)
    attack.recover(observation)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        attack.recover(observation)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
