"""Submissions as sandboxed workers describe them: none is loaded in the harness's own process."""

from __future__ import annotations

from benchmark.execution.engines.engine import Engine
from benchmark.execution.events import Described
from benchmark.execution.jobs import DESCRIBE_SECONDS, DescribeJob, Job
from benchmark.plugins.catalog import Catalog, Describe, find_submissions
from benchmark.plugins.description import Description
from benchmark.plugins.registry import Kind


def submissions(kind: Kind, engine: Engine) -> Catalog:
    """Submissions of one kind."""
    return find_submissions(kind, describer(engine))


def describer(engine: Engine) -> Describe:
    """What a catalog asks about each submission that it does not know yet."""

    def describe(role: Kind, reference: str) -> Description | str:
        work = DescribeJob(submission=reference, role=role)
        outcome = engine.one(Job(work, time_limit=DESCRIBE_SECONDS))
        for event in outcome.events(Described):
            return event.meta
        if complaint := outcome.complaint():
            return complaint.reason
        return outcome.reason or "the file ended the process that read it"

    return describe
