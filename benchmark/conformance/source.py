"""A submission's source as text: on which line something stands, and what it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmark.conformance.problems import Problem
from benchmark.plugins.candidates import METHODS, Candidate, relative
from benchmark.plugins.installed import split_reference
from benchmark.spec import Knowledge

PROJECT = ("benchmark", "tasks", "submissions", "leaderboard")
ALLOWED = ("benchmark.spec", "submissions.blocks")
FACTS = {
    "labels": Knowledge.LABELS,
    "lengths": Knowledge.LENGTHS,
    "frequencies": Knowledge.FREQUENCIES,
    "type_count": Knowledge.TYPE_COUNT,
    "noise_scale": Knowledge.NOISE_SCALE,
    "prior": Knowledge.PRIOR,
    "text": Knowledge.PUBLIC_TEXT,
    "table": Knowledge.PUBLIC_TABLE,
}
"""Attributes that are empty unless the knowledge is handed over."""
HOLDERS = ("observation", "observation.update", "observation.public", "public", "update")


@dataclass(frozen=True)
class SourceCode:
    """The files of a submission; the main one has its class."""

    candidate: Candidate

    @property
    def paths(self) -> list[str]:
        """Files and folders that are its own."""
        reference = Path(self.candidate.reference)
        return [str(reference)] if reference.exists() else [str(p) for p in self.candidate.files]

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        """The syntax trees of the files that can be parsed."""
        found = {}
        for path in self.candidate.files:
            try:
                found[path] = ast.parse(path.read_bytes())
            except (OSError, SyntaxError, ValueError):
                continue
        return found

    @cached_property
    def main(self) -> tuple[Path, ast.ClassDef | None]:
        """The file with the submission's class, and that class."""
        reference = self.candidate.reference
        wanted = "" if Path(reference).exists() else split_reference(reference)[1]
        classes = [
            (path, node)
            for path, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and (node.name == wanted or not wanted)
        ]
        for path, node in classes:
            if _targets(node, "name") or any(_is_method(part) for part in node.body):
                return path, node
        first = [*self.candidate.files, Path(reference)][0]
        return classes[0] if classes else (first, None)

    def place(self, *names: str) -> tuple[str, int]:
        """File and line of the first of some attributes, methods or strings of the class."""
        path, node = self.main
        if node is None:
            return relative(str(path)), 1
        lines = (line for name in names for line in _lines(node, name))
        return relative(str(path)), next(lines, node.lineno)

    def problem(self, check: str, words: str, *names: str, warning: bool = False) -> Problem:
        """A problem on the line of an attribute, a method or a string."""
        return Problem(check, *self.place(*names), words, warning)

    def foreign_imports(self) -> Iterator[Problem]:
        """Imports of this project that a submission may not make."""
        allowed = (*ALLOWED, *self._own_packages())
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                for name in _imported(node):
                    if _within(name, PROJECT) and not _within(name, allowed):
                        words = (
                            f"it imports {name}; of this project a submission may import only "
                            "benchmark.spec and submissions.blocks"
                        )
                        line = getattr(node, "lineno", 1)
                        yield Problem("loads", relative(str(path)), line, words)

    def _own_packages(self) -> list[str]:
        """What modules of the submission itself are called."""
        reference = Path(self.candidate.reference)
        if reference.exists():
            return [f"submissions.{folder}.{reference.stem}" for folder in ("attacks", "defenses")]
        return [split_reference(self.candidate.reference)[0].partition(".")[0]]

    def facts_read(self) -> dict[Knowledge, tuple[str, int, str]]:
        """Knowledge that the main file looks at by name: where, and in which words."""
        path, _ = self.main
        found: dict[Knowledge, tuple[str, int, str]] = {}
        for node in ast.walk(self.trees.get(path, ast.Module([], []))):
            if isinstance(node, ast.Attribute) and node.attr in FACTS:
                words = ast.unparse(node)
                if words.rpartition(".")[0] in HOLDERS:
                    found.setdefault(FACTS[node.attr], (relative(str(path)), node.lineno, words))
        return found


def _is_method(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name in METHODS


def _targets(node: ast.ClassDef, name: str) -> list[ast.stmt]:
    """Statements of a class body that define a name."""
    found: list[ast.stmt] = []
    for part in node.body:
        plain = isinstance(part, ast.Assign) and any(ast.unparse(t) == name for t in part.targets)
        typed = isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == name
        method = isinstance(part, ast.FunctionDef) and part.name == name
        found += [part] if plain or typed or method else []
    return found


def _lines(node: ast.ClassDef, name: str) -> Iterator[int]:
    """Lines of a class on which a name is defined, the last first, or a string of it stands."""
    yield from (part.lineno for part in reversed(_targets(node, name)))
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and part.value == name:
            yield part.lineno


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
