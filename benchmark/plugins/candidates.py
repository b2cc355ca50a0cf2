"""Finds what may be a submission, without importing anything of it.

There are three places: a folder, with or without `attacks/` and `defenses/`, a path that is named
by itself, and an installed package. Whatever comes of them is treated alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.paths import ROOT, is_submission, submission_directories, submission_files
from benchmark.plugins.installed import NotLocated, entry_points, locate
from benchmark.plugins.registry import Kind

METHODS: dict[str, Kind] = {
    **dict.fromkeys(("recover", "recover_many", "prepare"), "attack"),
    **dict.fromkeys(("shares", "transform", "local_update", "client_update"), "defense"),
}
"""Methods that tell what a class without a folder is."""


@dataclass(frozen=True)
class Candidate:
    """Something that may be a submission."""

    where: str
    """What people read."""
    reference: str
    """A file, a folder or `module:Class[@folder]`."""
    files: Sequence[Path]
    problem: str = ""
    """Why it cannot even be asked."""


def candidates(kind: Kind) -> Iterator[Candidate]:
    """All of one kind: from folders, from single paths, from installed packages."""
    seen = set()
    for base in submission_directories():
        folder = base / f"{kind}s"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if is_submission(path) and not path.name.startswith(("_", ".")):
                seen.add(path.resolve())
                yield of_path(path)
    for path in dict.fromkeys(submission_files()):
        if path not in seen and kind_of(path) == kind:
            yield of_path(path)
    for point in entry_points(kind):
        where = f"entry point {point.name}"
        try:
            code = locate(point.value)
            yield Candidate(where, code.reference, code.files())
        except NotLocated as error:
            yield Candidate(where, point.value, (), str(error))


def of_path(path: Path) -> Candidate:
    """The submission that a file or a folder may hold."""
    return Candidate(relative(str(path)), str(path), python_files(path))


def kind_of(path: Path) -> Kind:
    """What a single file or folder holds: its parent folder tells, else its code."""
    by_folder: dict[str, Kind] = {"attacks": "attack", "defenses": "defense"}
    if found := by_folder.get(path.parent.name):
        return found
    file = path / "__init__.py" if path.is_dir() else path
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return "attack"  # which is then listed as broken, with the reason
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    told = [kind for node in reversed(classes) for kind in _signs(node)]
    return told[0] if told else "attack"


def _signs(node: ast.ClassDef) -> Iterator[Kind]:
    """What a class says of its kind: by what it is called after, and by what it defines."""
    for base in map(ast.unparse, node.bases):
        if base.endswith(("Attack", "Defense")):
            yield "attack" if base.endswith("Attack") else "defense"
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in METHODS:
            yield METHODS[part.name]


def python_files(path: Path) -> list[Path]:
    """The code of a submission."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def relative(reference: str) -> str:
    """A path as people read it: below the project where it lies there."""
    path = Path(reference)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else reference
