"""What is to be checked: a submission by its name, or by the path of its file or folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmark.conformance.source import SourceCode
from benchmark.errors import UserError, unknown_name
from benchmark.paths import is_submission
from benchmark.plugins.candidates import Candidate, candidates, kind_of
from benchmark.plugins.catalog import Describe, Entry, described, files_digest
from benchmark.plugins.description import Description
from benchmark.plugins.registry import Kind

KINDS: tuple[Kind, ...] = ("attack", "defense")
VARIABLE = "LEAKBOARD_SUBMISSIONS"


@dataclass(frozen=True)
class Target:
    """A submission that may be broken: where its code is, and what it says of itself."""

    kind: Kind
    candidate: Candidate
    found: Description | str
    """Its description, or why there is none."""

    @property
    def source(self) -> SourceCode:
        """Its code as text."""
        return SourceCode(self.candidate)

    @cached_property
    def entry(self) -> Entry:
        """As the catalog has it, whether or not the catalog took it."""
        assert isinstance(self.found, Description)
        digest = files_digest(self.candidate.files)
        return Entry(
            self.kind, reference=self.candidate.reference, digest=digest, **dict(self.found)
        )

    def answers_to(self, name: str) -> bool:
        """Whether a name is the submission's, one of its variants', or that of its file."""
        names = [Path(self.candidate.where).stem, self.candidate.where.rpartition(".")[2]]
        if isinstance(self.found, Description):
            names = [self.found.name, *self.found.variants]
        return name in names


def add_path(text: str | Path) -> Path:
    """Make a submission that lies anywhere one of those that every command finds."""
    path = Path(text).expanduser().resolve()
    if not path.exists():
        raise UserError(f"There is no file {text}; `leakboard new` writes one.")
    if not is_submission(path):
        raise UserError(
            f"{text} is no submission; name a Python file, or a folder with an __init__.py."
        )
    others = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = os.pathsep.join([*filter(None, [others]), str(path)])
    return path


def is_path(text: str) -> bool:
    """Whether a word on the command line means a path instead of a name."""
    return os.sep in text or text.endswith(".py") or Path(text).is_dir()


def find_target(text: str, describe: Describe) -> Target:
    """The submission behind a path or a name, `kind:name` where both kinds have it.

    A path is added to those that workers may read, so this comes before any worker starts.
    """
    if is_path(text):
        path = add_path(text)
        kind = kind_of(path)
        same = [c for c in candidates(kind) if Path(c.reference).resolve() == path]
        return Target(kind, same[0], described(kind, same[0], describe))
    kinds = [kind for kind in KINDS if text.startswith(f"{kind}:")] or KINDS
    name = text.partition(":")[2] or text
    every = [target for kind in kinds for target in _targets(kind, describe)]
    found = [target for target in every if target.answers_to(name)]
    if not found:
        known = [t.found.name for t in every if isinstance(t.found, Description)]
        raise unknown_name("submission", name, known)
    if len({target.kind for target in found}) > 1:
        raise UserError(
            f"{name} is an attack and a defense; write attack:{name} or defense:{name}."
        )
    return found[0]


def _targets(kind: Kind, describe: Describe) -> Iterator[Target]:
    for candidate in candidates(kind):
        yield Target(kind, candidate, described(kind, candidate, describe))
