"""Which tasks a submission is tried on, and with how little effort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmark.plugins.catalog import Entry
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.spec import Knowledge, Scalar
from benchmark.suites import Suite, Task

LITTLE = 4
EFFORT = frozenset(
    {
        *("steps", "iterations", "epochs", "rounds", "restarts", "repetitions", "tries", "trials"),
        *("candidates", "permutations", "proposals", "samples", "batches", "searches", "draws"),
    }
)
"""Last words of parameters that count work: a check sets these to a little."""


def small_tasks(suite: Suite) -> list[Task]:
    """The first task of each family, which is the smallest."""
    return list({task.family: task for task in reversed(suite.tasks)}.values())[::-1]


def task_for(suite: Suite, first: Task, needs: frozenset[str]) -> Task | None:
    """A task like the first one of its family that grants what an attack needs."""
    family = (t for t in suite.tasks if (t.family, t.objective) == (first.family, first.objective))
    return next((task for task in family if needs <= {str(g) for g in task.grants}), None)


def restricted(task: Task, known: Iterable[str]) -> Task:
    """The task as one that grants no more than this; for what an attack is told of it."""
    return replace(task, grants=frozenset(map(Knowledge, known)))


def with_little_effort(
    entry: Entry, settings: Mapping[str, Scalar] | None = None
) -> ConfiguredSubmission:
    """A submission at settings of its own whose counted work is cut to a little."""
    given = settings or {}
    values = dict(given)
    for name, rule in entry.parameters.items():
        work = given.get(name, rule.default)
        counts = type(work) is int and name.rpartition("_")[2] in EFFORT and not rule.choices
        if counts and int(work) > LITTLE:
            values[name] = max(LITTLE, int(rule.low or 0))
    return ConfiguredSubmission(entry, entry.without_defaults(values))
