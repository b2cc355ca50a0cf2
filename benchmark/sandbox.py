"""Keeps other people's code from the truth, the results and the network.

Three fences, the best one that the platform has: bubblewrap (own file tree, processes and network),
Landlock with a network namespace (Linux without bubblewrap), or a Python audit hook (elsewhere,
best effort only). All three work from one list of paths that a submission may read.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmark import landlock
from benchmark.errors import unknown_name
from benchmark.paths import ROOT, cache_directory, data_directory, submission_directories

FENCES = BUBBLEWRAP, LANDLOCK, AUDIT_HOOK = "bubblewrap", "landlock", "audit-hook"
SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/lib32",
    "/bin",
    "/sbin",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/sys/devices/system/cpu",
)
SCRATCH = Path("/scratch")
"""The one folder besides /dev/shm that a submission behind bubblewrap can write to."""
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def hidden_paths() -> list[Path]:
    """What no submission may read, even where it lies inside a folder that it may."""
    paths = [
        ROOT / "tasks" / "corpora",
        ROOT / "tasks" / "reference",
        ROOT / "leaderboard",
        ROOT / "tests",
        ROOT / ".git",
    ]
    paths += [cache_directory(), *filter(None, [data_directory()])]
    return [path.resolve() for path in paths]


def _roots() -> list[Path]:
    """Python, its packages, system libraries, the harness and the submissions; nothing else."""
    interpreter = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()]
    own = [ROOT / "benchmark", ROOT / "tasks", *_submission_parts()]
    roots = [Path(p) for p in (*SYSTEM, *interpreter)] + own
    return sorted({path.absolute() for path in roots if path.exists()})


def _submission_parts() -> list[Path]:
    """The code in each folder of submissions, and nothing else that may lie there."""
    parts = ("__init__.py", "attacks", "defenses", "blocks")
    return [base / part for base in submission_directories() for part in parts]


def readable_paths() -> list[Path]:
    """What a submission may read: the roots without what is hidden in them."""
    hidden = hidden_paths()
    kept: list[Path] = []
    for root in _roots():
        if not any(root.is_relative_to(parent) for parent in kept):
            kept += _without(root, hidden)
    return kept


def listable_paths() -> list[Path]:
    """Folders that hold something hidden: Python must list them to import what is beside it."""
    roots = [root.resolve() for root in _roots()]
    above = {parent for secret in hidden_paths() for parent in secret.parents}
    return sorted(p for p in above if any(p.is_relative_to(root) for root in roots))


def _without(path: Path, hidden: Sequence[Path]) -> list[Path]:
    """The path itself, or its parts where something below it is hidden."""
    resolved = path.resolve()
    if any(resolved.is_relative_to(secret) for secret in hidden):
        return []
    if path.is_dir() and any(secret.is_relative_to(resolved) for secret in hidden):
        return [part for child in sorted(path.iterdir()) for part in _without(child, hidden)]
    return [path]


@cache
def fence() -> str:
    """The best fence that works here; `LEAKBOARD_SANDBOX` may ask for a particular one."""
    asked = os.environ.get("LEAKBOARD_SANDBOX")
    if asked:
        if asked not in FENCES:
            raise unknown_name("sandbox", asked, FENCES)
        return asked
    if _bubblewrap_works():
        return BUBBLEWRAP
    return LANDLOCK if landlock.version() > 0 else AUDIT_HOOK


def _bubblewrap_works() -> bool:
    """Some systems have bubblewrap but forbid the namespaces it needs."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    trial = [program, "--ro-bind", "/", "/", "--unshare-all", "--", "/bin/true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def command(module: Sequence[str], inbox: Path, outbox: Path) -> list[str]:
    """The command line that runs a Python module inside the fence."""
    python = [sys.executable, "-P", "-s", "-m", *module]
    if fence() != BUBBLEWRAP:
        return python
    wrap = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    wrap += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/dev/shm",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        str(SCRATCH),
    ]
    for path in readable_paths():
        wrap += _bind(path)
    for device in gpu_files():
        wrap += ["--dev-bind", str(device), str(device)]
    wrap += ["--ro-bind", str(inbox), str(inbox), "--bind", str(outbox), str(outbox)]
    for place in ("/dev", "/tmp", "/"):  # what can be written is emptied after every job
        wrap += ["--remount-ro", place]
    return [*wrap, "--chdir", str(SCRATCH), "--", *python]


def _bind(path: Path) -> list[str]:
    """Links stay links (a virtual environment's interpreter is one); the rest is read-only."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)]


def gpu_files() -> list[Path]:
    """Device files that CUDA needs to see."""
    return sorted(Path("/dev").glob("nvidia*"))


def environment(threads: int, device: str, scratch: Path) -> dict[str, str]:
    """A clean environment: nothing of the user's own reaches a submission."""
    variables = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    if device.startswith("cuda:"):
        variables["CUDA_VISIBLE_DEVICES"] = device.removeprefix("cuda:")
    elif device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("SYSTEMROOT", "LD_LIBRARY_PATH"):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables


@dataclass(frozen=True)
class Fence:
    """What the harness tells a worker about its limits, before any submission is loaded."""

    kind: str
    readable: list[str]
    listable: list[str]
    inbox: str
    outbox: str
    scratch: str

    def close(self) -> None:
        """Shut this process in, for good, where bubblewrap has not done so already."""
        if self.kind == BUBBLEWRAP:
            return
        _leave_the_network()
        readable = [*self.readable, self.inbox, "/dev", "/proc", "/sys/devices"]
        writable = [self.outbox, self.scratch, os.devnull, *map(str, gpu_files())]
        if self.kind == LANDLOCK:
            landlock.restrict(readable, self.listable, writable)
        allowed = [*map(os.path.realpath, (*readable, *writable))]
        _install_audit_hook(allowed, self.listable, no_processes=self.kind == AUDIT_HOOK)


def describe_fence(inbox: Path, outbox: Path, scratch: Path) -> Fence:
    """The limits of a worker that is about to start."""
    return Fence(
        kind=fence(),
        readable=[str(path) for path in readable_paths()],
        listable=[str(path) for path in listable_paths()],
        inbox=str(inbox),
        outbox=str(outbox),
        scratch=str(scratch),
    )


def _leave_the_network() -> None:
    """An empty network namespace, where the kernel lets an ordinary process make one."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)


def _install_audit_hook(
    allowed: Sequence[str], listable: Sequence[str], no_processes: bool
) -> None:
    """Refuse sockets and other people's files from inside Python: the last resort.

    Where nothing else holds, other programs are refused too, since no hook would watch them.
    """
    network = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg",
               "socket.getaddrinfo"}  # fmt: skip
    programs = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"}
    refused = network | programs if no_processes else network

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in refused:
            raise PermissionError(f"A submission may not call {event}.")
        if event in ("open", "os.listdir", "os.scandir") and not isinstance(arguments[0], int):
            path = os.path.realpath(os.fsdecode(arguments[0] or "."))
            if path not in listable and not any(
                path == place or path.startswith(place + os.sep) for place in allowed
            ):
                raise PermissionError(f"A submission may not read {path}.")

    sys.addaudithook(refuse)
