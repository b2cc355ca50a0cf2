"""From names, globs and parameters to configured submissions and tasks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from benchmark.errors import UserError, unknown_name
from benchmark.plugins.catalog import Catalog, Entry
from benchmark.plugins.composition import incompatibility
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.names import part_parameters, variant
from benchmark.plugins.registry import Broken
from benchmark.spec import Scalar
from benchmark.suites import Suite, Task


@dataclass(frozen=True)
class ConfiguredSubmission:
    """A submission with the parameters that differ from its defaults."""

    entry: Entry
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def variant(self) -> str:
        """The name that the submission gives to these very parameters, if it does."""
        named = self.entry.variants.items()
        return next(
            (name for name, s in named if self.entry.without_defaults(s) == self.parameters), ""
        )

    @property
    def name(self) -> str:
        """The variant's name, or `name[key=value,...]`."""
        return self.variant or variant(self.entry.name, self.parameters)

    def digest(self, task: Task) -> str:
        """Of the code, and of the budget that a defense which accounts for privacy depends on."""
        declared = task.training or task.federation
        if declared is None or not self.entry.overrides:
            return self.entry.digest
        known = declared.budget
        budget = f"{known.rounds} {known.sampling_rate} {known.delta}"
        return hashlib.sha256(f"{self.entry.digest} {budget}".encode()).hexdigest()

    def calls(self) -> tuple[SubmissionCall, ...]:
        """What a worker needs to make this submission, or each part of a combination."""
        if not self.entry.parts:
            return (_call(self.entry, self.parameters),)
        return tuple(
            _call(part, part_parameters(part.name, self.parameters)) for part in self.entry.parts
        )


def _call(entry: Entry, parameters: Mapping[str, Scalar]) -> SubmissionCall:
    return SubmissionCall(reference=entry.reference, parameters=dict(parameters))


def split_parameters(text: str) -> tuple[str, dict[str, str]]:
    """`name[key=value,...]` as name and strings; brackets without `=` belong to a glob."""
    if not text.endswith("]") or "=" not in text:
        return text, {}
    name, _, inside = text[:-1].partition("[")
    pairs = [part.partition("=") for part in inside.split(",")]
    if any(not key or not equals for key, equals, _ in pairs):
        raise UserError(f"{text!r} is not of the form name[key=value,...].")
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def choose(catalog: Catalog, kind: str, patterns: str) -> list[ConfiguredSubmission]:
    """Submissions, variants and combinations that globs name; at least one for each."""
    found = []
    for pattern in split_names(patterns, ","):
        if kind != "defense" or len(names := split_names(pattern, "+")) == 1:
            found += _choose(catalog, kind, pattern)
        else:
            parts = product(*(_choose(catalog, kind, name) for name in names))
            found += [combine(each) for each in parts]
    return found


def split_names(pattern: str, sign: str) -> list[str]:
    """The parts of `first[key=value]+second`; a sign inside brackets divides nothing."""
    return re.split(rf"\{sign}(?![^\[]*\])", pattern)


def combine(parts: Sequence[ConfiguredSubmission]) -> ConfiguredSubmission:
    """Several defenses as one, with the parameters of each under its name."""
    entries = tuple(part.entry for part in parts)
    name = "+".join(entry.name for entry in entries)
    if why := incompatibility([(entry.name, entry.overrides) for entry in entries]):
        raise UserError(f"{name} cannot be combined: {why}.")
    digests = " ".join(entry.digest for entry in entries)
    entry = Entry(
        kind="defense",
        name=name,
        reference="",
        digest=hashlib.sha256(digests.encode()).hexdigest(),
        summary=" ".join(entry.summary for entry in entries),
        paper="; ".join(dict.fromkeys(entry.paper for entry in entries if entry.paper)),
        allow_tf32=False,
        parameters={},
        overrides=[step for entry in entries for step in entry.overrides],
        parts=entries,
    )
    given = {f"{p.entry.name}.{key}": value for p in parts for key, value in p.parameters.items()}
    return ConfiguredSubmission(entry, given)


def _choose(catalog: Catalog, kind: str, pattern: str) -> list[ConfiguredSubmission]:
    """Submissions and variants that a glob with optional parameters names; at least one."""
    name, given = split_parameters(pattern)
    named = catalog.names()
    matching = sorted(n for n in named if fnmatchcase(n, name))
    if not matching:
        catalog.get(kind, name)
    found = []
    for entry, settings in (named[n] for n in matching):
        preset = {key: str(value) for key, value in settings.items()}
        found.append(ConfiguredSubmission(entry, entry.check_parameters(preset | given)))
    return found


def choose_tasks(suite: Suite, patterns: str) -> list[Task]:
    """Tasks that globs name, with or without the suite's name in front; at least one for each."""
    found = set()
    for pattern in patterns.split(","):
        full = pattern if "/" in pattern else f"{suite.name}/{pattern}"
        matching = {task.name for task in suite.tasks if fnmatchcase(task.name, full)}
        if not matching:
            raise unknown_name("task", full, [task.name for task in suite.tasks])
        found |= matching
    return [task for task in suite.tasks if task.name in found]


def is_broken(catalog: Catalog, pattern: str) -> bool:
    """Whether a line of a plan names a plug-in that is there but cannot be loaded."""
    known = catalog.names()
    return any(n not in known and catalog.broken_behind(n) for n in _plain_names(pattern))


def without_broken(catalog: Catalog, patterns: str) -> str:
    """The names asked for less the broken ones; all of them where nothing else is left."""
    names = split_names(patterns, ",")
    return ",".join([name for name in names if not is_broken(catalog, name)] or names)


def broken_among(catalog: Catalog, patterns: str | None) -> list[Broken]:
    """The broken plug-ins that names and globs stand for; None stands for every one."""
    if patterns is None:
        return list(catalog.broken)
    names = [name for pattern in split_names(patterns, ",") for name in _plain_names(pattern)]
    globbed = [b for b in catalog.broken if any(fnmatchcase(Path(b.where).stem, n) for n in names)]
    named = [found for n in names if (found := catalog.broken_behind(n))]
    return list(dict.fromkeys([*globbed, *named]))


def _plain_names(pattern: str) -> list[str]:
    """The names in `first[key=value]+second`, without parameters."""
    return [split_parameters(part)[0] for part in split_names(pattern, "+")]
