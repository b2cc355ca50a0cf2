"""The order in which tasks are shown: by family, and batch sizes counted instead of spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from benchmark.suites import Family
from leaderboard.data.catalog import TaskRow

FAMILIES: tuple[str, ...] = get_args(Family)
SIZE = re.compile(r"-[a-z]([0-9]{1,9})")
"""`-b16` for sentences to a batch, `-t500` for tokens."""
DIGITS = re.compile(r"([0-9]{1,9})")

TaskKey = tuple[tuple[int, str], tuple[str | int, ...], int, str]


def stem(task: str) -> str:
    """What variants of different batch size share: `mini/cola-b4` is a variant of `mini/cola`."""
    return task[: match.start()] if (match := _size(task)) else task


def _size(task: str) -> re.Match[str] | None:
    return SIZE.fullmatch(task, max(task.rfind("-"), 0))


def family_title(family: str) -> str:
    """The family as a heading; tasks that only records name have none."""
    words = family.replace("-", " ").strip()
    return words[:1].upper() + words[1:] if words else "Other tasks"


def task_order(task: TaskRow) -> TaskKey:
    """Families as the design lists them, then names, then sizes: b2 < b4 < b16 < finetuned."""
    known = FAMILIES.index(task.family) if task.family in FAMILIES else len(FAMILIES)
    place = (known + (not task.family), task.family)
    match = _size(task.name)
    parts = DIGITS.split(stem(task.name))  # text and digits in turn, so that keys compare
    spelled = tuple(int(part) if i % 2 else part for i, part in enumerate(parts))
    return (place, spelled, int(match[1]) if match else 0, task.name)


def by_family(tasks: Iterable[TaskRow]) -> tuple[tuple[str, tuple[TaskRow, ...]], ...]:
    """Tasks in order, in one group for each family."""
    groups: dict[str, list[TaskRow]] = {}
    for task in sorted(tasks, key=task_order):
        groups.setdefault(task.family, []).append(task)
    return tuple((family, tuple(group)) for family, group in groups.items())
