"""Rows for `leakboard list` and for the site: tasks, submissions, suites, metrics, models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmark import registry
from benchmark.engines.local import LocalEngine
from benchmark.jobs import DESCRIBE_SECONDS, Job
from benchmark.registry import Broken, Catalogue, Kind

KINDS = ("tasks", "attacks", "defenses", "suites", "metrics", "models")
Find = Callable[[Kind], Catalogue]
Rows = list[dict[str, Any]]


def submissions(kind: Kind, engine: LocalEngine) -> Catalogue:
    """Submissions of one kind, described by a sandboxed worker."""

    def describe(role: Kind, reference: str) -> dict[str, Any]:
        job = Job("describe", {"submission": reference, "role": role}, time_limit=DESCRIBE_SECONDS)
        outcome = engine.one(job)
        for event in outcome.events("described"):
            return {"meta": event["meta"]}
        for event in (*outcome.events("broken"), *outcome.events("failed")):
            return {"broken": str(event["reason"])}
        return {"broken": outcome.reason or "the file ended the process that read it"}

    return registry.submissions(kind, describe)


def collect(what: str, find: Find) -> tuple[Rows, Sequence[str], Sequence[Broken]]:
    """Rows, the columns a person wants first, and what is broken."""
    if what == "tasks":
        return _tasks(), ("name", "family", "batch_size", "snapshots", "summary"), _broken_suites()
    if what == "suites":
        return _suites(), ("name", "tasks", "summary"), _broken_suites()
    if what == "metrics":
        return _metrics(), ("name", "unit", "direction", "meaning"), ()
    if what == "models":
        return _models(), ("name", "architecture", "parameters", "vocabulary", "training"), ()
    kind: Kind = "attack" if what == "attacks" else "defense"
    catalogue = find(kind)
    rows = [asdict(entry) for entry in catalogue.entries.values()]
    return rows, ("name", "summary", "needs", "parameters", "variants"), catalogue.broken


def everything(find: Find) -> dict[str, Any]:
    """What the site says beside the results."""
    attacks, defenses = find("attack"), find("defense")
    return {
        "suites": tuple(registry.suites()[0].values()),
        "entries": (*attacks.entries.values(), *defenses.entries.values()),
        "broken": (*attacks.broken, *defenses.broken, *_broken_suites()),
    }


def _tasks() -> Rows:
    found = []
    for task in registry.tasks().values():
        found.append(asdict(task) | {"grants": sorted(task.grants)})
    return found


def _suites() -> Rows:
    return [
        {"name": suite.name, "tasks": len(suite.tasks), "summary": suite.summary}
        for suite in registry.suites()[0].values()
    ]


def _metrics() -> Rows:
    from benchmark.metrics.table import METRICS

    return [asdict(metric) for metric in METRICS.values()]


def _models() -> Rows:
    return [asdict(row) for row in registry.model_catalogue()]


def _broken_suites() -> Sequence[Broken]:
    return registry.suites()[1]
