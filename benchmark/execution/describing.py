"""Asks a sandboxed worker what a submission says of itself."""

from __future__ import annotations

from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Described
from benchmark.execution.jobs import DESCRIBE_SECONDS, DescribeJob, Job
from benchmark.plugins.catalog import Describe
from benchmark.plugins.description import Description
from benchmark.plugins.registry import Kind


def describer(engine: LocalEngine) -> Describe:
    """What the catalog asks about each submission that it does not know yet."""

    def describe(role: Kind, reference: str) -> Description | str:
        work = DescribeJob(submission=reference, role=role)
        outcome = engine.one(Job(work, time_limit=DESCRIBE_SECONDS))
        for event in outcome.events(Described):
            return event.meta
        if complaint := outcome.complaint():
            return complaint.reason
        return outcome.reason or "the file ended the process that read it"

    return describe
