"""The whole conformance suite over one submission."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from benchmark.conformance.attacks import AttackCheck
from benchmark.conformance.baselines import Baselines
from benchmark.conformance.defenses import DefenseCheck
from benchmark.conformance.metadata import metadata_problems
from benchmark.conformance.problems import Problem, in_order
from benchmark.conformance.target import Target, find_target
from benchmark.conformance.trials import TrialLimits, TrialRunner
from benchmark.execution.describing import describer
from benchmark.execution.devices import choose
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog, find_submissions
from benchmark.plugins.description import Description
from benchmark.plugins.limits import description_problem
from benchmark.plugins.registry import Kind, get_suite
from benchmark.suites import NO_DEFENSE

SUITE = "mini"
"""Whose tasks are small and need nothing that is not here."""


class Conformance:
    """Checks submissions one after another, with one set of workers."""

    def __init__(self, engine: LocalEngine, limits: TrialLimits | None = None) -> None:
        self.engine, self.describe = engine, describer(engine)
        self.limits = limits or TrialLimits()
        self._catalogs: dict[Kind, Catalog] = {}

    def find(self, text: str) -> Target:
        """A submission by path or name; a path has to come before the first worker starts."""
        return find_target(text, self.describe)

    def check(
        self, target: Target, full: bool = True, limits: TrialLimits | None = None
    ) -> list[Problem]:
        """Every problem, the errors first; `full` tries an attack at its own settings, too."""
        runner = TrialRunner(self.engine, limits or self.limits, get_suite(SUITE))
        return in_order(self._problems(target, runner, full))

    def _problems(self, target: Target, runner: TrialRunner, full: bool) -> Iterator[Problem]:
        yield from target.source.foreign_imports()
        if isinstance(target.found, str):
            words = f"{target.found}; `leakboard new` writes a file that loads"
            yield Problem("loads", *_named_line(target), words)
            return
        yield from metadata_problems(target.kind, target.found, target.source)
        if description_problem(target.found):
            return  # a run would leave it out
        if taken := self._taken(target):
            yield target.source.problem("metadata", taken, "name")
            return
        undefended = self.catalog("defense").entries[NO_DEFENSE]
        if target.kind == "attack":
            check = AttackCheck(runner, target, undefended, self._baselines)
            yield from check.problems(full)
        else:
            yield from DefenseCheck(runner, target, undefended).problems()

    def catalog(self, kind: Kind) -> Catalog:
        """All submissions of one kind."""
        if kind not in self._catalogs:
            self._catalogs[kind] = find_submissions(kind, self.describe)
        return self._catalogs[kind]

    @cached_property
    def _baselines(self) -> Baselines:
        entries = self.catalog("attack").entries.values()
        return Baselines([entry for entry in entries if entry.baseline])

    def _taken(self, target: Target) -> str | None:
        """Whether another submission has its name, or that of one of its variants."""
        assert isinstance(target.found, Description)
        others = Catalog(
            {
                name: entry
                for name, entry in self.catalog(target.kind).entries.items()
                if entry.reference != target.candidate.reference
            }
        )
        taken = others.name_problem(target.found)
        return f"{taken}; choose another one" if taken else None


def _named_line(target: Target) -> tuple[str, int]:
    """The line that a reason names, or the class."""
    file, line = target.source.place()
    _, found, rest = str(target.found).partition("in line ")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (file, int(digits)) if found and digits else (file, line)


def check_path(path: Path | str, seconds: float = 120.0) -> list[Problem]:
    """Every problem of the submission in a file or folder: for the tests of its author."""
    devices, threads = choose("cpu", 1)
    with LocalEngine(devices, threads) as engine:
        suite = Conformance(engine, TrialLimits(seconds))
        return suite.check(suite.find(str(path)), full=False)
