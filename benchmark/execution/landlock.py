"""The few Linux Landlock calls that we need: allow some folders, forbid all others, for good."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
READ = 0b1101  # execute, read file, read directory
LIST = 0b1000  # read directory: names below it, not contents
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights on files each version of the interface knows."""
FILE_ONLY = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)  # those of a plain file
TCP = 0b11  # bind and connect, from version 4 on
SCOPED = 0b11  # abstract Unix sockets and signals stay inside, from version 6 on


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Landlock's interface version, 0 where the kernel has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1)))


def restrict(readable: Iterable[str], listable: Iterable[str], writable: Iterable[str]) -> None:
    """From now on this process and its children read and write below these paths only."""
    number = version()
    everything = (1 << FILE_RIGHTS[min(number, 5)]) - 1
    libc = ctypes.CDLL(None, use_errno=True)
    rules = _Ruleset(everything, TCP, SCOPED)
    size = 24 if number >= 6 else 16 if number >= 4 else 8
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused the rules of the worker")
    for paths, rights in ((readable, READ), (listable, LIST), (writable, everything)):
        for path in paths:
            _allow(libc, ruleset, Path(path), rights & everything)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock refused to restrict the worker")
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
    try:
        allowed = rights if path.is_dir() else rights & FILE_ONLY
        rule = _PathBeneath(allowed, handle)
        libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(handle)
