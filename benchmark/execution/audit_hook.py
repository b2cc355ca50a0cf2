"""The sandbox of last resort: refuses files, sockets and programs from inside Python.

It watches what Python does, so native code and `ctypes` get round it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident

REFUSED = frozenset(
    {
        "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
        "socket.gethostbyname", "socket.gethostbyaddr",
        "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork",
        "os.forkpty", "pty.spawn", "os.startfile",
        "os.kill", "os.killpg", "signal.pthread_kill",
        "fcntl.flock", "fcntl.lockf", "fcntl.ioctl", "os.lockf", "resource.prlimit",
    }
)  # fmt: skip
"""Events that are refused whatever their arguments."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NO_FOLDER = -1

Arguments = tuple[object, ...]
"""What an audit event is told with."""
WITNESSES: list[Callable[[str, Arguments], None]] = []
"""Told of what is about to be refused: a hook that was added later never learns of it."""
Paths = tuple[tuple[object, object, bool], ...]
"""Of each path of an event: the path, the folder it is relative to, and whether it is written."""


def _one_written(arguments: Arguments) -> Paths:
    """A path first and, last, the folder that it is relative to."""
    return ((arguments[0], arguments[-1], True),)


def _no_folder(arguments: Arguments) -> Paths:
    return ((arguments[0], NO_FOLDER, True),)


def _read(arguments: Arguments) -> Paths:
    return ((arguments[0], NO_FOLDER, False),)


def _two(arguments: Arguments) -> Paths:
    """A source and a target, each with its folder. A link to a file is as good as the file."""
    source, target, source_folder, target_folder = arguments[:4]
    return ((source, source_folder, True), (target, target_folder, True))


def _symlink(arguments: Arguments) -> Paths:
    return ((arguments[1], arguments[2], True),)


def _opened(arguments: Arguments) -> Paths:
    flags = arguments[2] if isinstance(arguments[2], int) else 0
    return ((arguments[0], NO_FOLDER, bool(flags & WRITING)),)


PATHS: Mapping[str, Callable[[Arguments], Paths]] = {
    "open": _opened,
    "os.listdir": _read,
    "os.scandir": _read,
    "os.chdir": _read,
    "os.getxattr": _read,
    "os.listxattr": _read,
    "os.link": _two,
    "os.rename": _two,
    "os.symlink": _symlink,
    "os.remove": _one_written,
    "os.rmdir": _one_written,
    "os.mkdir": _one_written,
    "os.chmod": _one_written,
    "os.chown": _one_written,
    "os.utime": _one_written,
    "os.truncate": _no_folder,
    "os.setxattr": _no_folder,
    "os.removexattr": _no_folder,
    "os.chflags": _no_folder,
    "os.mkfifo": _no_folder,
    "os.mknod": _no_folder,
    "shutil.move": _read,
}
"""Events that name files, and how to find the paths in their arguments."""


def install(readable: Sequence[str], listable: Sequence[str], writable: Sequence[str]) -> None:
    """From now on Python code reads and writes below these paths only, for good."""
    read = tuple(map(os.path.realpath, (*readable, *writable)))
    write = tuple(map(os.path.realpath, writable))
    listed = frozenset(map(os.path.realpath, listable))
    _resolve_opened_folders()
    busy: set[int] = set()

    def refuse(event: str, arguments: Arguments) -> None:
        if event in REFUSED:
            _tell(event, arguments)
            raise PermissionError(f"A submission may not call {event}.")
        find, thread = PATHS.get(event), get_ident()
        if find is None or thread in busy:
            return
        busy.add(thread)  # resolving a path raises events of its own
        try:
            for given, folder, written in find(arguments):
                path = resolved(given, folder)
                if path is None or (not written and path in listed):
                    continue
                if not below(path, write if written else read):
                    _tell(event, arguments)
                    word = "change" if written else "read"
                    raise PermissionError(f"A submission may not {word} {path}.")
        finally:
            busy.discard(thread)

    sys.addaudithook(refuse)


def _tell(event: str, arguments: Arguments) -> None:
    for witness in WITNESSES:
        witness(event, arguments)


def below(path: str, places: Sequence[str]) -> bool:
    """Whether a real path is one of the places or lies in one."""
    return any(path == place or path.startswith(place + os.sep) for place in places)


def resolved(given: object, folder: object) -> str | None:
    """The real path, or None for a file that was opened, and so allowed, before."""
    if isinstance(given, int):
        return None
    path = os.fsdecode(given) if isinstance(given, str | bytes | os.PathLike) else "."
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(path):
        path = os.path.join(_folder_behind(folder), path)
    return os.path.realpath(path)


def _folder_behind(handle: int) -> str:
    """The path of an open folder; where the system does not tell, nothing that is allowed."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return os.devnull


def _resolve_opened_folders() -> None:
    """Have `os.open` name the whole path, since its event does not tell of `dir_fd`."""
    plain = os.open

    def open_(
        path: str | bytes | os.PathLike[str],
        flags: int,
        mode: int = 0o777,
        *,
        dir_fd: int | None = None,
    ) -> int:
        if dir_fd is not None and not isinstance(path, int):
            path = os.path.join(_folder_behind(dir_fd), os.fsdecode(path))
        return plain(path, flags, mode)

    for module in (os, sys.modules["posix" if os.name == "posix" else "nt"]):
        module.open = open_  # type: ignore[attr-defined]
    os.supports_dir_fd.add(open_)
