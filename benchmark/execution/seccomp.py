"""A filter of system calls for job processes, installed through `prctl` alone.

It refuses what no attack or defense needs and what would reach past the job: sockets, keyrings,
file locks, System V objects, files in memory that no folder shows, tracing, new namespaces, other
processes' limits and priorities.
Everything else is allowed; the file system is the business of mounts and Landlock.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Iterable

SET_SECCOMP, MODE_FILTER, NO_NEW_PRIVILEGES = 22, 2, 38
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
X32 = 0x40000000
UNIX = 1
LOCKS = (6, 7, 37, 38, 1024, 1026)
"""Commands of `fcntl` that lock, lease or watch a file."""
NEW_NAMESPACES = 0x7E020080
"""Flags of `clone` that make a namespace."""

_MACHINES: dict[str, tuple[int, str]] = {
    "x86_64": (
        0xC000003E,
        "keyctl=250 add_key=248 request_key=249 flock=73 fcntl=72 ptrace=101 process_vm_readv=310"
        " process_vm_writev=311 kcmp=312 shmget=29 shmat=30 shmctl=31 semget=64 semop=65 semctl=66"
        " shmdt=67 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 semtimedop=220 mq_open=240 socket=41"
        " bpf=321 perf_event_open=298 userfaultfd=323 mount=165 umount2=166 pivot_root=155"
        " unshare=272 setns=308 clone=56 setxattr=188 lsetxattr=189 fsetxattr=190 removexattr=197"
        " lremovexattr=198 fremovexattr=199 prlimit64=302 setpriority=141 sched_setaffinity=203"
        " sched_setscheduler=144 sched_setparam=142 sched_setattr=314 ioprio_set=251 chroot=161"
        " open_by_handle_at=304 name_to_handle_at=303 init_module=175 finit_module=313"
        " kexec_load=246 reboot=169 swapon=167 syslog=103 acct=163 quotactl=179 mknod=133"
        " mknodat=259 personality=135 memfd_create=319",
    ),
    "aarch64": (
        0xC00000B7,
        "keyctl=219 add_key=217 request_key=218 flock=32 fcntl=25 ptrace=117 process_vm_readv=270"
        " process_vm_writev=271 kcmp=272 shmget=194 shmctl=195 shmat=196 shmdt=197 msgget=186"
        " msgctl=187 msgrcv=188 msgsnd=189 semget=190 semctl=191 semtimedop=192 semop=193"
        " mq_open=180 socket=198 bpf=280 perf_event_open=241 userfaultfd=282 mount=40 umount2=39"
        " pivot_root=41 unshare=97 setns=268 clone=220 setxattr=5 lsetxattr=6 fsetxattr=7"
        " removexattr=14 lremovexattr=15 fremovexattr=16 prlimit64=261 setpriority=140"
        " sched_setaffinity=122 sched_setscheduler=119 sched_setparam=118 sched_setattr=274"
        " ioprio_set=30 chroot=51 open_by_handle_at=265 name_to_handle_at=264 init_module=105"
        " finit_module=273 kexec_load=104 reboot=142 swapon=224 syslog=116 acct=89 quotactl=60"
        " mknodat=33 personality=92 memfd_create=279",
    ),
}
_EVERYWHERE = (
    "io_uring_setup=425 open_tree=428 move_mount=429 fsopen=430 fsmount=432 clone3=435"
    " pidfd_getfd=438 process_madvise=440 mount_setattr=442 setxattrat=463 removexattrat=466"
)
"""System calls whose number is the same on all machines."""
_BY_ARGUMENT = {"fcntl", "clone", "clone3", "socket", "prlimit64", "setpriority", "ioprio_set"}
_OWN_PROCESS_ONLY = {
    "prlimit64": 0,
    "setpriority": 1,
    "ioprio_set": 1,
    "sched_setaffinity": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
}
"""Calls that take a process, and which argument that is: 0 stands for the caller."""

Instruction = tuple[int, int, int, int]


def available() -> bool:
    """Whether this machine's system calls are known here."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def restrict(unix_sockets: bool = False) -> None:
    """From now on this process and its children may not make these calls."""
    code = b"".join(struct.pack("HBBI", *step) for step in program(unix_sockets))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(SET_SECCOMP, MODE_FILTER, ctypes.c_char_p(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused the filter of system calls")


def program(unix_sockets: bool) -> list[Instruction]:
    """The filter as instructions of the kernel's packet filter."""
    architecture, names = _MACHINES[platform.machine()]
    pairs = (pair.partition("=") for pair in f"{names} {_EVERYWHERE}".split())
    numbers = {name: int(number) for name, _, number in pairs}
    steps = [_load(ARCHITECTURE), (JUMP_EQUAL, 1, 0, architecture), _answer(REFUSE), _load(NUMBER)]
    if platform.machine() == "x86_64":
        steps += [(JUMP_GREATER_EQUAL, 0, 1, X32), _answer(REFUSE)]
    needed = {"memfd_create"} if unix_sockets else set()  # by drivers of GPUs, as are sockets
    for name in sorted(set(numbers) - _BY_ARGUMENT - set(_OWN_PROCESS_ONLY) - needed):
        steps += _when(numbers[name], [_answer(REFUSE)])
    for name, argument in _OWN_PROCESS_ONLY.items():
        own = [_load_argument(argument), (JUMP_EQUAL, 1, 0, 0), _answer(REFUSE)]
        steps += _when(numbers[name], own)
    steps += _when(numbers["fcntl"], _refuse_values(1, LOCKS))
    steps += _when(
        numbers["clone"],
        [_load_argument(0), (JUMP_ANY_BIT, 0, 1, NEW_NAMESPACES), _answer(REFUSE)],
    )
    steps += _when(numbers["clone3"], [_answer(MISSING)])  # its flags lie in memory: use `clone`
    allowed = [(JUMP_EQUAL, 1, 0, UNIX)] if unix_sockets else []
    steps += _when(numbers["socket"], [_load_argument(0), *allowed, _answer(REFUSE)])
    return [*steps, _answer(ALLOW)]


def _when(number: int, then: list[Instruction]) -> list[Instruction]:
    """These steps for one system call; behind them its number is loaded again."""
    steps = [*then, _load(NUMBER)]
    return [(JUMP_EQUAL, 0, len(steps), number), *steps]


def _refuse_values(argument: int, values: Iterable[int]) -> list[Instruction]:
    steps = [_load_argument(argument)]
    for value in values:
        steps += [(JUMP_EQUAL, 0, 1, value), _answer(REFUSE)]
    return steps


def _load(offset: int) -> Instruction:
    return (LOAD, 0, 0, offset)


def _load_argument(index: int) -> Instruction:
    """The lower half of an argument; both machines are little-endian."""
    return _load(ARGUMENTS + 8 * index)


def _answer(action: int) -> Instruction:
    return (RETURN, 0, 0, action)
