"""Looks for notes that another job may have left, and leaves some."""

import contextlib
import ctypes
from pathlib import Path

from benchmark.spec import Attack, Recovery

PLACES = ("/stash", "/tmp/stash", "/dev/stash", "/dev/shm/stash", "/scratch/stash")


class Reader(Attack):
    name = "reader"
    summary = "Reads what other jobs left behind, and leaves notes of its own."

    def prepare(self, public):
        self.found = []
        for place in PLACES:
            with contextlib.suppress(OSError):
                self.found.append(Path(place).read_text())
            with contextlib.suppress(OSError):
                Path(place).write_text("note of an earlier job")
        libc = ctypes.CDLL(None)
        if libc.shmget(4711, 4096, 0o600) != -1:
            self.found.append("shared memory")
        libc.shmget(4711, 4096, 0o600 | 0o1000)

    def recover(self, observation):
        return Recovery(token_types=frozenset({5}), note="; ".join(self.found))
