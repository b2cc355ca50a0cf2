"""Keeps other people's code from the truth, the results, the network and other jobs.

Three sandboxes, the best one that the platform has: bubblewrap (a file tree of its own around the
fork server), Landlock (the kernel refuses all other files), or a Python audit hook (elsewhere, best
effort only). All three work from one list of paths that a submission may read. Inside each of them,
every job has fresh folders and, where the kernel grants them, namespaces and a filter of system
calls of its own (`isolation`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmark.errors import UserError, unknown_name
from benchmark.execution import landlock
from benchmark.paths import (
    ROOT,
    cache_directory,
    data_directory,
    submission_directories,
    submission_files,
)

SANDBOXES = BUBBLEWRAP, LANDLOCK, AUDIT_HOOK = "bubblewrap", "landlock", "audit-hook"
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
SLEEPING_THREADS = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Threads that wait for others sleep meanwhile instead of spinning, so that a busy machine does not
take a multiple of its share: of GNU's OpenMP, which torch brings, and of Intel's where that is
installed. NumPy's OpenBLAS spins whatever it is told, and its problems here are small: one thread.
"""
KEPT_MEMORY = {
    "MALLOC_TOP_PAD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}
"""glibc keeps what was freed for the next tensor instead of asking the kernel for empty pages each
time, which takes a third of the time of attacks that need whole gradients."""
SAME_SUMS = {"MKL_CBWR": "AUTO,STRICT", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""A matrix product has the same digits wherever its operands happen to lie in memory."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
NOBODY = "65534"


# ----------------------------------------------------------------------------- which one, and where


@cache
def sandbox_kind() -> str:
    """The best sandbox that works here; `LEAKBOARD_SANDBOX` may ask for a particular one."""
    asked = os.environ.get("LEAKBOARD_SANDBOX")
    if asked:
        if asked not in SANDBOXES:
            raise unknown_name("sandbox", asked, SANDBOXES)
        if not works(asked):
            raise UserError(
                f"LEAKBOARD_SANDBOX asks for {asked}, which does not work here; "
                "`leakboard doctor` says what this machine offers."
            )
        return asked
    return next(kind for kind in SANDBOXES if works(kind))


@cache
def works(kind: str) -> bool:
    """Whether this machine has a sandbox, and its kernel allows what it needs."""
    if kind == LANDLOCK:
        return landlock.version() > 0
    if kind == AUDIT_HOOK:
        return True
    program = shutil.which("bwrap")
    if program is None:
        return False
    trial = [program, "--ro-bind", "/", "/", "--unshare-all", "--", "/bin/true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def hidden_paths(more: Iterable[Path] = ()) -> list[Path]:
    """What no submission may read, even where it lies inside a folder that it may."""
    paths = [
        ROOT / "tasks" / "corpora",
        ROOT / "tasks" / "reference",
        ROOT / "leaderboard",
        ROOT / "tests",
        ROOT / ".git",
    ]
    paths += [cache_directory(), *filter(None, [data_directory()]), *more]
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
    found = [base / part for base in submission_directories() for part in parts]
    return found + submission_files()


def readable_paths(hidden: Sequence[Path]) -> list[Path]:
    """What a submission may read: the roots without what is hidden in them."""
    kept: list[Path] = []
    for root in _roots():
        if not any(root.is_relative_to(parent) for parent in kept):
            kept += _without(root, hidden)
    return kept


def listable_paths(hidden: Sequence[Path]) -> list[Path]:
    """Folders of which only some parts are readable: Python lists them to import those parts."""
    roots = [root.resolve() for root in _roots()]
    above = {parent for secret in hidden for parent in secret.parents}
    partly_hidden = {p for p in above if any(p.is_relative_to(root) for root in roots)}
    return sorted(partly_hidden | {base.resolve() for base in submission_directories()})


def _without(path: Path, hidden: Sequence[Path]) -> list[Path]:
    """The path itself, or its parts where something below it is hidden."""
    resolved = path.resolve()
    if any(resolved.is_relative_to(secret) for secret in hidden):
        return []
    if path.is_dir() and any(secret.is_relative_to(resolved) for secret in hidden):
        return [part for child in sorted(path.iterdir()) for part in _without(child, hidden)]
    return [path]


def gpu_files() -> list[Path]:
    """Device files that CUDA needs to see."""
    return sorted(Path("/dev").glob("nvidia*"))


# -------------------------------------------------------------------------- what a worker is given


@dataclass(frozen=True)
class Limits:
    """What the harness tells a fork server about its jobs' limits."""

    kind: str
    readable: list[str]
    listable: list[str]
    home: str
    """Folder of the slot: a job sees its own folders in it, and no others."""
    devices: list[str]
    gpu: bool
    harness: int
    """Process that the server must not outlive."""


def describe_limits(home: Path, hidden: Iterable[Path] = ()) -> Limits:
    """The limits of the jobs of a fork server that is about to start."""
    secrets = hidden_paths(hidden)
    gpus = gpu_files()
    return Limits(
        kind=sandbox_kind(),
        readable=[str(path) for path in readable_paths(secrets)],
        listable=[str(path) for path in listable_paths(secrets)],
        home=str(home),
        devices=[path for path in (*DEVICES, *map(str, gpus)) if os.path.exists(path)],
        gpu=bool(gpus),
        harness=os.getpid(),
    )


def command(module: Sequence[str], limits: Limits) -> list[str]:
    """The command line that runs a Python module, inside bubblewrap where that is the sandbox."""
    python = [sys.executable, "-P", "-s", "-m", *module]
    if limits.kind != BUBBLEWRAP:
        return python
    wrap = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user"]
    wrap += ["--uid", NOBODY, "--gid", NOBODY]  # root could not be mapped again for a job
    wrap += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    wrap += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"]
    for path in map(Path, limits.readable):
        wrap += _bind(path)
    for device in limits.devices:
        wrap += ["--dev-bind", device, device] if device not in DEVICES else []
    wrap += ["--bind", limits.home, limits.home]
    for place in ("/dev", "/tmp", "/"):
        wrap += ["--remount-ro", place]
    return [*wrap, "--chdir", limits.home, "--", *python]


def _bind(path: Path) -> list[str]:
    """Links stay links (a virtual environment's interpreter is one); the rest is read-only."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)]


def environment(threads: int, device: str, home: Path) -> dict[str, str]:
    """A clean environment: nothing of the user's own reaches a submission."""
    variables = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        **SLEEPING_THREADS,
        **KEPT_MEMORY,
        **SAME_SUMS,
    }
    if device.startswith("cuda:"):
        variables["CUDA_VISIBLE_DEVICES"] = device.removeprefix("cuda:")
    elif device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("SYSTEMROOT", "LD_LIBRARY_PATH"):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables
