"""Where things lie: the repository's packages and the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmark.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds the four packages."""


_elsewhere: list[Path] = []
"""Caches that stand in for the usual one, the innermost last."""


def cache_directory() -> Path:
    """Snapshots, truths and prepared models: `LEAKBOARD_CACHE`, else the user's cache folder."""
    if _elsewhere:
        return _elsewhere[-1]
    selected = os.environ.get("LEAKBOARD_CACHE")
    if selected:
        return Path(selected).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser() / "leakboard"


@contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """Another folder is the cache meanwhile, in all threads of this process."""
    _elsewhere.append(folder.resolve())
    try:
        yield
    finally:
        _elsewhere.pop()


def submission_directories() -> list[Path]:
    """Folders with `attacks/` and `defenses/`: ours and those in `LEAKBOARD_SUBMISSIONS`."""
    named = os.environ.get("LEAKBOARD_SUBMISSIONS", "").split(os.pathsep)
    folders = [Path(name).expanduser().resolve() for name in named if name]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"LEAKBOARD_SUBMISSIONS names {folder}, which is not a folder.")
    return [ROOT / "submissions", *folders]


def data_directory() -> Path | None:
    """Real corpora as JSON Lines, where `LEAKBOARD_DATA` names a folder of them."""
    selected = os.environ.get("LEAKBOARD_DATA")
    return Path(selected).expanduser().resolve() if selected else None
