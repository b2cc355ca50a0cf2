"""What a submission says of itself: complete, known and within its own bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from benchmark.conformance.problems import Problem
from benchmark.conformance.source import SourceCode
from benchmark.errors import UserError
from benchmark.plugins.description import Description
from benchmark.plugins.limits import description_problems, typed_value
from benchmark.plugins.registry import Kind
from benchmark.spec import Role
from benchmark.suites import ObjectiveName

OBJECTIVES = get_args(ObjectiveName)


def metadata_problems(kind: Kind, found: Description, source: SourceCode) -> Iterator[Problem]:
    """Everything that can be seen without running the submission."""
    for words in description_problems(found):
        yield _placed(found, words, source)
    yield from _words(found, source)
    yield from _parameters(found, source)
    if kind == "attack":
        yield from _requirements(found, source)
        yield from _unread(found, source)


def _placed(found: Description, words: str, source: SourceCode) -> Problem:
    """A sentence of the limits, on the line of what it speaks of."""
    named = [name for name in (*found.variants, *found.parameters) if name in words]
    check = "parameters" if named or "parameter" in words or "variant" in words else "metadata"
    attribute = next((n for n in ("summary", "paper", "needs", "uses") if n in words), "name")
    return source.problem(check, words, *named, "parameters" if named else attribute)


def _words(found: Description, source: SourceCode) -> Iterator[Problem]:
    if not found.summary.strip().endswith("."):
        words = f"its summary {found.summary[:60]!r} is no sentence; end it with a period"
        yield source.problem("metadata", words, "summary")
    reference = Path(source.candidate.reference)
    if reference.exists() and reference.stem != found.name:
        words = f"its file is called {reference.name}; name it {found.name}.py after the submission"
        yield source.problem("metadata", words, "name")


def _parameters(found: Description, source: SourceCode) -> Iterator[Problem]:
    for name, rule in found.parameters.items():
        if not rule.meaning.strip():
            words = f"its parameter {name} has no meaning; tell in a sentence what it sets"
            yield source.problem("parameters", words, name, "parameters")
        if rule.low is not None and rule.high is not None and rule.low > rule.high:
            words = f"its parameter {name} has a low of {rule.low} above its high of {rule.high}"
            yield source.problem("parameters", words, name, "parameters")
        for value in rule.grid:
            try:
                typed_value(f"the grid of {found.name}", name, str(value), rule)
            except UserError as error:
                yield source.problem("parameters", str(error).rstrip("."), name, "parameters")


def _requirements(found: Description, source: SourceCode) -> Iterator[Problem]:
    if not found.objectives:
        words = f"it claims no objective; name some of {', '.join(OBJECTIVES)}"
        yield source.problem("metadata", words, "objectives")
    for known, names, attribute in (
        (OBJECTIVES, found.objectives, "objectives"),
        (tuple(Role), found.observes, "observes"),
    ):
        for name in names:
            if name not in known:
                words = f"its {attribute} name {name!r}, which is none of {', '.join(known)}"
                yield source.problem("metadata", words, attribute)


def _unread(found: Description, source: SourceCode) -> Iterator[Problem]:
    """Knowledge that the code looks at although nobody will ever hand it over."""
    declared = {*found.needs, *found.uses}
    for parameter in found.parameters.values():
        declared |= {*parameter.needs, *parameter.uses}
    for fact, (file, line, words) in source.facts_read().items():
        if fact not in declared:
            advice = f"it looks at {words}, which is always empty: add Knowledge.{fact.name} to " \
                     "`uses`, or to `needs` where it cannot do without"  # fmt: skip
            yield Problem("knowledge", file, line, advice, warning=True)
