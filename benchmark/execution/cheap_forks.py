"""Keeps the forks of a large process cheap.

A fork copies the page tables of all that the fork server has imported, the end of a process takes
them apart again, and a job needs three of both: with the usual pages about 75 ms of processor time,
with huge ones 20. Moving the server there takes most of a second, so it is done for servers that
have many jobs.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
from collections.abc import Iterator
from pathlib import Path

COLLAPSE = 25
"""`MADV_COLLAPSE`, since Linux 6.1: put what is there on huge pages."""
HUGE = 2 << 20
MANY = 8
"""Forks after which more are to be expected."""

_forks = itertools.count(1)


def prepare_fork() -> None:
    """To be called before every fork of the server.

    Whatever the server has imported is nothing for a job's collector: looking through it would take
    time, and a copy of the memory that both share.
    """
    gc.freeze()
    if next(_forks) == MANY:
        with contextlib.suppress(OSError):
            onto_huge_pages()


def onto_huge_pages() -> None:
    """Move this process there; where the kernel cannot or will not, everything stays as it is."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for start, end in _own_memory():
        first, last = -(-start // HUGE) * HUGE, end // HUGE * HUGE
        if first < last:
            advise(first, last - first, COLLAPSE)


def _own_memory() -> Iterator[tuple[int, int]]:
    """Writable memory that belongs to no file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, _, *name = line.split()
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(number, 16) for number in place.split("-"))
            yield start, end
