"""Finds submissions and keeps their descriptions.

A broken plug-in is listed with its reason and never stops the others. Submissions are described by
a sandboxed worker, so their code does not run in this process.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from benchmark.errors import UserError, unknown_name
from benchmark.files import remember, remembered
from benchmark.paths import ROOT, cache_directory
from benchmark.plugins.candidates import Candidate, candidates, python_files, relative
from benchmark.plugins.description import Description
from benchmark.plugins.limits import description_problem, taken_name, typed_value
from benchmark.plugins.registry import Broken, Kind
from benchmark.spec import Parameter, Scalar


@dataclass(frozen=True)
class Entry:
    """A usable submission: where it is, and what it says of itself."""

    kind: Kind
    name: str
    reference: str
    """A file, a folder or `module:Class[@folder]`."""
    digest: str
    """sha256 over its source and the shared building blocks that it imports."""
    summary: str
    paper: str
    allow_tf32: bool
    parameters: Mapping[str, Parameter]
    variants: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    observes: Sequence[str] = ()
    needs: Sequence[str] = ()
    uses: Sequence[str] = ()
    objectives: Sequence[str] = ()
    baseline: bool = False
    overrides: Sequence[str] = ()
    parts: tuple[Entry, ...] = ()
    """Of a combination of defenses."""

    def without_defaults(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The settings that differ from the defaults."""
        return {k: v for k, v in settings.items() if v != self.parameters[k].default}

    def needed(self, settings: Mapping[str, Scalar]) -> frozenset[str]:
        """Knowledge without which an attack cannot run at these settings."""
        return self._knowledge(settings, self.needs, lambda parameter: parameter.needs)

    def told(self, settings: Mapping[str, Scalar]) -> frozenset[str]:
        """Knowledge that an attack is handed at these settings where a task grants it."""
        used = self._knowledge(settings, self.uses, lambda parameter: parameter.uses)
        return self.needed(settings) | used

    def _knowledge(
        self,
        settings: Mapping[str, Scalar],
        always: Iterable[str],
        of_parameter: Callable[[Parameter], Iterable[str]],
    ) -> frozenset[str]:
        taken = set(always)
        for name, parameter in self.parameters.items():
            free = parameter.default if parameter.without is None else parameter.without
            if settings.get(name, parameter.default) != free:
                taken |= set(of_parameter(parameter))
        return frozenset(taken)

    def check_parameters(self, given: Mapping[str, str]) -> dict[str, Scalar]:
        """Typed values for `key=value` strings; refuses unknown names and values out of range."""
        values: dict[str, Scalar] = {}
        for key, text in given.items():
            if key not in self.parameters:
                raise unknown_name(f"parameter of {self.name}", key, self.parameters)
            value = typed_value(self.name, key, text, self.parameters[key])
            if value != self.parameters[key].default:
                values[key] = value
        return values


@dataclass
class Catalog:
    """All submissions of one kind: the usable ones by name, and the broken ones."""

    entries: dict[str, Entry] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    def names(self) -> dict[str, tuple[Entry, Mapping[str, Scalar]]]:
        """Every name that can be asked for: submissions, and their variants with the settings."""
        variants = {
            name: (entry, settings)
            for entry in self.entries.values()
            for name, settings in entry.variants.items()
        }
        return variants | {name: (entry, {}) for name, entry in self.entries.items()}

    def name_problem(self, found: Description) -> str | None:
        """Whether a submission, or a variant of it, bears the name of another or of its variant."""
        owners = {name: relative(entry.reference) for name, (entry, _) in self.names().items()}
        return taken_name([found.name, *found.variants], owners)

    def broken_behind(self, name: str) -> Broken | None:
        """The broken plug-in that a name, or the name of one of its variants, points to."""
        for item in self.broken:
            stem = Path(item.where).stem
            if name == stem or name.startswith(f"{stem}_"):
                return item
        return None

    def get(self, kind: str, name: str) -> Entry:
        """An entry by name; a broken one is named with its reason."""
        if name in self.entries:
            return self.entries[name]
        if item := self.broken_behind(name):
            raise UserError(f"The {kind} in {item.where} is broken: {item.reason}.")
        raise unknown_name(kind, name, self.names())


Describe = Callable[[Kind, str], Description | str]
"""Asks a sandboxed worker about a submission: its description, or the reason why it is broken."""


def find_submissions(kind: Kind, describe: Describe) -> Catalog:
    """Everything in `submissions/<kind>s/` and in installed packages that declare some."""
    catalog = Catalog()
    for candidate in candidates(kind):
        found = described(kind, candidate, describe)
        if not isinstance(found, str):
            found = description_problem(found) or catalog.name_problem(found) or found
        if isinstance(found, str):
            catalog.broken.append(Broken(kind, candidate.where, found))
        else:
            catalog.entries[found.name] = Entry(
                kind,
                reference=candidate.reference,
                digest=files_digest(candidate.files),
                **dict(found),
            )
    return catalog


def described(kind: Kind, candidate: Candidate, describe: Describe) -> Description | str:
    """The worker's answer, remembered by the digest of the source."""
    if candidate.problem:
        return candidate.problem
    try:
        return _recall(kind, candidate)
    except (OSError, ValidationError):
        found = describe(kind, candidate.reference)
        if isinstance(found, Description):  # an installation may repair a broken one, so ask again
            remember(_description_path(kind, candidate), found.model_dump_json())
        return found


def unknown(kind: Kind) -> dict[str, str]:
    """References of submissions that a worker has to be asked about, and their sources' digests."""
    return {
        item.reference: files_digest(item.files)
        for item in candidates(kind)
        if not _is_known(kind, item)
    }


def _is_known(kind: Kind, candidate: Candidate) -> bool:
    if candidate.problem:
        return True
    try:
        _recall(kind, candidate)
    except (OSError, ValidationError):
        return False
    return True


def _recall(kind: Kind, candidate: Candidate) -> Description:
    text = remembered(_description_path(kind, candidate))
    return Description.model_validate_json(text, strict=True)


def _description_path(kind: Kind, candidate: Candidate) -> Path:
    parts = f"{kind} {candidate.reference} {files_digest(candidate.files)}"
    key = hashlib.sha256(parts.encode()).hexdigest()
    return cache_directory() / "descriptions" / f"{key}.json"


def source_digest(path: Path) -> str:
    """sha256 over a submission's files and, transitively, the `submissions` modules it imports."""
    return files_digest(python_files(path))


def files_digest(files: Iterable[Path]) -> str:
    """The same of files that are known already."""
    todo, seen = [*files], {}
    while todo:
        path = todo.pop()
        if path not in seen and path.is_file():
            seen[path] = path.read_bytes()
            todo += _imported_blocks(seen[path], ROOT)
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(seen[path]).digest())
    return digest.hexdigest()


@cache
def _imported_blocks(source: bytes, root: Path) -> list[Path]:
    """Files of the shared building blocks named by import statements."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    places = [root.joinpath(*name.split(".")) for name in names if name.startswith("submissions.")]
    return [file for p in places for file in (p.with_suffix(".py"), p / "__init__.py")]
