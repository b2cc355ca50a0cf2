"""Submissions as sandboxed workers describe them: none is loaded in the harness's own process."""

from __future__ import annotations

from collections.abc import Iterable

from benchmark.execution.engines.engine import Engine
from benchmark.execution.events import Described
from benchmark.execution.jobs import DESCRIBE_SECONDS, DescribeJob, Job, Outcome
from benchmark.plugins.catalog import Catalog, Describe, find_submissions, unknown
from benchmark.plugins.description import Description
from benchmark.plugins.registry import Kind


def submissions(kind: Kind, engine: Engine) -> Catalog:
    """Submissions of one kind; those that are not known yet are asked about side by side."""
    asked = unknown(kind)
    answers = _ask(kind, asked, engine)
    if answers:  # a file may have been edited meanwhile
        now = unknown(kind)
        answers = {name: answers[name] for name in asked if now.get(name) == asked[name]}
    ask_one = describer(engine)

    def describe(role: Kind, reference: str) -> Description | str:
        return answers[reference] if reference in answers else ask_one(role, reference)

    return find_submissions(kind, describe)


def describer(engine: Engine) -> Describe:
    """What a catalog asks about each submission that it does not know yet."""
    return lambda role, reference: _answer(engine.one(_job(role, reference)))


def _ask(role: Kind, references: Iterable[str], engine: Engine) -> dict[str, Description | str]:
    """What each says, in a job of its own as ever."""
    answers: dict[str, Description | str] = {}

    def keep(outcome: Outcome) -> Iterable[Job]:
        assert isinstance(outcome.job.work, DescribeJob)
        answers[outcome.job.work.submission] = _answer(outcome)
        return ()

    engine.run([_job(role, reference) for reference in references], keep)
    return answers


def _job(role: Kind, reference: str) -> Job:
    return Job(DescribeJob(submission=reference, role=role), time_limit=DESCRIBE_SECONDS)


def _answer(outcome: Outcome) -> Description | str:
    for event in outcome.events(Described):
        return event.meta
    if complaint := outcome.complaint():
        return complaint.reason
    return outcome.reason or "the file ended the process that read it"
