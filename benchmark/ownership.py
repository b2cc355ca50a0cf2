"""Folders and files that belong to a running process; what a killed one left behind is removed.

An owner holds a lock that the kernel releases however the process ends. So neither a process number
that was given out again nor a process of another machine is mistaken for an owner, and no owner
that has died keeps anything.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmark.paths import cache_directory

LOCK = ".lock"
PART = ".part"
"""Ending of a file in the making."""

_held: dict[Path, int] = {}
"""Descriptors of the locks of this process's own folders."""
_staging: dict[Path, Path] = {}
"""This process's own folder in the staging directory of each cache."""


# ----------------------------------------------------------------------------------- own folders


def claim_folder(base: Path) -> Path:
    """A fresh folder below `base` that belongs to this process; those of dead ones are removed."""
    base.mkdir(parents=True, exist_ok=True)
    remove_orphans(base)
    handle, lock = locked_file(base, "own-", LOCK)
    folder = lock.with_suffix("")
    folder.mkdir(mode=0o700)
    _held[folder] = handle
    return folder


def locked_file(folder: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    """A new file that belongs to whoever has it open: its descriptor and its path."""
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
        with contextlib.suppress(OSError):  # a file system without locks: never removed by others
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_at(handle, name):
            return handle, Path(name)
        os.close(handle)  # somebody took it for an orphan before it was locked


def release_folder(folder: Path) -> None:
    """Remove a folder of this process's own."""
    remove_tree(folder)
    handle = _held.pop(folder, None)
    if handle is not None:
        folder.with_name(folder.name + LOCK).unlink(missing_ok=True)
        os.close(handle)


def share_folder(base: Path, name: str) -> Path:
    """The folder `name` below `base`, of all processes that share it; it goes with the last one."""
    base.mkdir(parents=True, exist_ok=True)
    remove_orphans(base)
    lock = base / f"{name}{LOCK}"
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_SH)
        if _is_at(handle, lock):
            break
        os.close(handle)  # the last owner has just left
    folder = lock.with_suffix("")
    folder.mkdir(mode=0o700, exist_ok=True)
    _held[folder] = handle
    return folder


def release_shared(folder: Path) -> None:
    """Leave a shared folder to the others, or remove it where there are none."""
    handle = _held.pop(folder, None)
    if handle is not None:
        os.close(handle)
    remove_orphans(folder.parent)


def staging_folder() -> Path:
    """A fresh folder in the cache for files in the making, gone at the latest with this process."""
    base = cache_directory() / "staging"
    if base not in _staging or not _staging[base].is_dir():
        _staging[base] = claim_folder(base)
        atexit.register(release_folder, _staging[base])
    return Path(tempfile.mkdtemp(dir=_staging[base]))


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A path in the cache to write a file to, which then takes the place of `target` at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = staging_folder()
    try:
        yield folder / target.name
        (folder / target.name).replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --------------------------------------------------------------------------------------- orphans


def remove_orphans(base: Path) -> None:
    """Remove the folders below `base` whose owner is gone."""
    for lock in base.glob(f"*{LOCK}"):
        with _taken_over(lock) as orphan:
            if orphan:
                remove_tree(lock.with_suffix(""))
                lock.unlink(missing_ok=True)
    for folder in base.iterdir():  # of earlier versions, which named the process
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            remove_tree(folder)


def require_writable(folder: Path) -> None:
    """Raise the error of the file system now, rather than when the first result is there."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = locked_file(folder, ".writable-", PART)
    path.unlink()
    os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove the files in the making below a folder that nobody is writing any more."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(PART) and name.startswith("."):
                path = Path(place, name)
                with _taken_over(path) as orphan:
                    if orphan:
                        path.unlink(missing_ok=True)


@contextmanager
def _taken_over(path: Path) -> Iterator[bool]:
    """Whether the owner of a file is gone; if so, nobody else has it meanwhile."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        yield _lock_now(handle) and _is_at(handle, path)
    finally:
        os.close(handle)


def _lock_now(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or the file system has no locks
        return False
    return True


def _is_at(handle: int, path: str | Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def remove_tree(folder: Path) -> None:
    """Remove a folder, also where a job has taken away the right to list what is in it."""
    with contextlib.suppress(OSError):
        _make_listable(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _make_listable(folder: Path) -> None:
    folder.chmod(0o700)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            _make_listable(path)


# ----------------------------------------------------------------------------------------- locks


@contextmanager
def alone(what: str) -> Iterator[None]:
    """No other process that shares the cache does `what` meanwhile; a dead one does not count."""
    folder = cache_directory() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(what.encode()).hexdigest()
    handle = os.open(folder / f"{name}{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
