"""Finds submissions in installed packages, and their files, without importing anything of them."""

from __future__ import annotations

import importlib.metadata
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, PathFinder
from pathlib import Path

ENTRY_POINTS = "leakboard.submissions"
_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)


class NotLocated(Exception):
    """An installed submission whose files cannot be found; the message says why."""


@dataclass(frozen=True)
class InstalledCode:
    """Where the code behind `module:Class` lies."""

    value: str
    """`module:Class`."""
    search: Path
    """Folder from which it is imported."""
    root: Path
    """The file of a module, or the folder of the first package on the way that has code."""

    @property
    def reference(self) -> str:
        """What a worker needs: `module:Class`, and `@folder` where it would not look there."""
        usual = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
        return self.value if self.search in usual else f"{self.value}@{self.search}"

    def files(self) -> list[Path]:
        """All modules of the package, or the one module."""
        if not self.root.is_dir():
            return [self.root]
        suffixes = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
        return sorted(p for p in self.root.rglob("*") if p.name.endswith(suffixes))


def entry_points(kind: str) -> Iterator[importlib.metadata.EntryPoint]:
    """What installed packages declare as `attack.<name>` or `defense.<name>`."""
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS)):
        if point.name.startswith(f"{kind}."):
            yield point


def split_reference(reference: str) -> tuple[str, str, str]:
    """Module, class and folder of `module:Class@folder`; the folder may be missing."""
    value, _, folder = reference.partition("@")
    module, _, attribute = value.partition(":")
    return module, attribute, folder


def locate(value: str) -> InstalledCode:
    """The files behind `module:Class`; raises `NotLocated`."""
    match = _REFERENCE.fullmatch(value.strip())
    if match is None:
        raise NotLocated(f"{value[:100]!r} is not of the form module:Class")
    first, *rest = match[1].split(".")
    for place in _top_level(first):
        if (root := _descend(place, rest)) is not None:
            return InstalledCode(match[0], place.parent, root)
    raise NotLocated(f"there is no module {match[1]} with code on the import path")


def _descend(place: Path, parts: Sequence[str]) -> Path | None:
    """The first place on the way down that holds code; namespace packages hold none."""
    if _holds_code(place):
        return place
    below = _child(place, parts[0]) if parts else None
    return _descend(below, parts[1:]) if below is not None else None


def _top_level(name: str) -> list[Path]:
    """The file or folder of a top-level module; several folders of a namespace package.

    `PathFinder` looks only at names of files, while `importlib.util.find_spec` would import the
    packages on the way.
    """
    spec = PathFinder.find_spec(name)
    if spec is None:
        raise NotLocated(
            f"there is no package {name} on the import path (an editable installation with an "
            "import hook hides its files: install it without -e, or with editable_mode=compat)"
        )
    places = spec.submodule_search_locations
    found = [Path(place) for place in places] if places is not None else [Path(spec.origin or "")]
    if not all(place.exists() for place in found):
        raise NotLocated(f"the package {name} lies in an archive, where its code cannot be read")
    return [place.absolute() for place in found]


def _holds_code(place: Path) -> bool:
    return place.is_file() or _module(place, "__init__") is not None


def _child(folder: Path, name: str) -> Path | None:
    inside = folder / name
    return inside if inside.is_dir() else _module(folder, name)


def _module(folder: Path, name: str) -> Path | None:
    names = (folder / f"{name}{suffix}" for suffix in (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES))
    return next((path for path in names if path.is_file()), None)
