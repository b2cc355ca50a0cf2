"""Where things lie: the repository's packages and the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
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
        return _resolved(selected, Path.cwd())
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expanded(base, "The place of the cache") / "leakboard"


@lru_cache(maxsize=8)
def _resolved(selected: str, _here: Path) -> Path:
    """Asked for with every file of the cache, and a folder's links are many questions."""
    return expanded(selected, "LEAKBOARD_CACHE").resolve()


def expanded(name: str, what: str) -> Path:
    """A path with `~` replaced by the home directory that it stands for."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(
            f"{what} is {name}, and nobody knows that home directory; write the whole path."
        ) from None


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
    return [ROOT / "submissions", *(path for path in _named() if not is_submission(path))]


def submission_files() -> list[Path]:
    """Single submissions of `LEAKBOARD_SUBMISSIONS`: named one by one, or together in a folder."""
    return [file for path in _named() for file in ([path] if is_submission(path) else _flat(path))]


def _flat(folder: Path) -> list[Path]:
    """What lies in a folder that has neither `attacks/` nor `defenses/`; tests do not count."""
    if any((folder / name).is_dir() for name in ("attacks", "defenses")):
        return []
    hidden = ("_", ".", "test_")
    files = (path for path in folder.iterdir() if not path.name.startswith(hidden))
    return sorted(path for path in files if is_submission(path))


def is_submission(path: Path) -> bool:
    """Whether a path has the form of a single submission: a Python file, or a package."""
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _named() -> list[Path]:
    names = os.environ.get("LEAKBOARD_SUBMISSIONS", "").split(os.pathsep)
    what = "LEAKBOARD_SUBMISSIONS"
    paths = [expanded(name, what).resolve() for name in names if name]
    for path in paths:
        if not path.is_dir() and not is_submission(path):
            raise UserError(
                f"LEAKBOARD_SUBMISSIONS names {path}, which is neither a folder nor a Python file."
            )
    return paths


def data_directory() -> Path | None:
    """Real corpora as JSON Lines, where `LEAKBOARD_DATA` names a folder of them."""
    selected = os.environ.get("LEAKBOARD_DATA")
    return expanded(selected, "LEAKBOARD_DATA").resolve() if selected else None
