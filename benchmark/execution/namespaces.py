"""Linux namespaces for one job: processes, users, mounts, network and IPC objects of its own.

A job sees a file tree in which nothing can be written but its own fresh folders, a process tree of
its own, and no network device. Where the kernel refuses namespaces, the other layers remain.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

USER, MOUNT, CGROUP, UTS, IPC, PROCESS, NETWORK = (
    0x10000000, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000,
)  # fmt: skip
EVERY = USER | MOUNT | CGROUP | UTS | IPC | PROCESS | NETWORK
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
NO_SUID, NO_DEVICES = 0x2, 0x4
MOUNT_SETATTR, HERE, WHOLE_TREE, READ_ONLY = 442, -100, 0x8000, 0x1
DROP_BOUND, DEATH_SIGNAL, DUMPABLE, KILL = 24, 1, 4, 9
CAPABILITIES_VERSION = 0x20080522
JOIN_SESSION_KEYRING = 1
KEYCTL = {"x86_64": 250, "aarch64": 219}
SHARED_MEMORY = Path("/dev/shm")


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "users"))


def available() -> bool:
    """Whether an ordinary process may make all these namespaces here, tried in a child."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        code = 1
        try:
            enter()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def enter() -> None:
    """Move this process into fresh namespaces; its next child is the first process of its own."""
    user, group = os.getuid(), os.getgid()
    set_traceable(True)  # else these files are root's, and an ordinary user may not write them
    _call("unshare", EVERY)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(line)
    set_traceable(False)
    _call("mount", None, b"/", None, RECURSIVE | PRIVATE, None)


def arrange_files(
    home: Path, kept: Sequence[Path], scratch: Path, size_mb: float
) -> Sequence[Path]:
    """Hide `home` but for the folders that the job keeps, and make all else read-only.

    `kept` are pairs of what the job reads and what it writes; `scratch` begins empty, as does
    shared memory, and neither outlives the job. Returns where these two lie in memory.
    """
    inbox, outbox = kept
    handles = [os.open(folder, os.O_PATH) for folder in kept]
    _mount_memory(home, size_mb)
    for folder, handle in zip(kept, handles, strict=True):
        folder.mkdir(parents=True)
        _call("mount", f"/proc/self/fd/{handle}".encode(), bytes(folder), None, BIND, None)
        os.close(handle)
    scratch.mkdir()
    shared = [SHARED_MEMORY] if SHARED_MEMORY.is_dir() else []
    for folder in shared:
        _mount_memory(folder, size_mb)
    _set_attributes(Path("/"), READ_ONLY, 0, WHOLE_TREE)
    for folder in (home, outbox, *shared):
        _set_attributes(folder, 0, READ_ONLY)
    assert inbox.is_dir()
    return [home, *shared]


def mount_processes() -> None:
    """Show the new process tree in /proc; inside bubblewrap the one that is there has to do."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"proc", b"/proc", b"proc", NO_SUID | NO_DEVICES, None)


def drop_privileges() -> None:
    """Give up every capability, for good, and take a keyring that nobody else has."""
    libc = ctypes.CDLL(None, use_errno=True)
    machine = os.uname().machine
    if machine in KEYCTL:
        libc.syscall(KEYCTL[machine], JOIN_SESSION_KEYRING, None)
    for capability in range(64):
        libc.prctl(DROP_BOUND, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())


def set_traceable(traceable: bool) -> None:
    """Whether other processes of this user may trace this one or read its memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DUMPABLE, int(traceable), 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, KILL, 0, 0, 0)


def _mount_memory(folder: Path, size_mb: float) -> None:
    options = f"mode=700,size={max(1, int(size_mb))}m".encode()
    _call("mount", b"tmpfs", bytes(folder), b"tmpfs", NO_SUID | NO_DEVICES, options)


def _set_attributes(folder: Path, added: int, removed: int, flags: int = 0) -> None:
    change = _Attributes(added, removed, 0, 0)
    _call("syscall", MOUNT_SETATTR, HERE, bytes(folder), flags, ctypes.byref(change), 32)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} was refused: {os.strerror(number)}")
