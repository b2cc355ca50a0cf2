"""What a reader can filter the tables of a page by, and the values that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leaderboard.data.catalog import TaskRow
from leaderboard.data.ordering import family_title
from leaderboard.views.attacks import AttackPanel
from leaderboard.views.suite import SuiteView

NOTHING = "nothing"
"""What an attack is told that is told nothing."""


@dataclass(frozen=True)
class Filter:
    """One choice, with its values and their labels."""

    name: str
    title: str
    values: tuple[tuple[str, str], ...]


def batch_of(task: TaskRow) -> str:
    """The size of a task's batch, as filters name it."""
    return f"{task.batch_tokens} tokens" if task.batch_tokens else str(task.batch_size)


def told_of(facts: Iterable[str] | None) -> tuple[str, ...]:
    """What an attack is told, as filters name it."""
    return tuple(facts or ()) or (NOTHING,)


def filter_options(view: SuiteView, told: Mapping[str, tuple[str, ...]]) -> tuple[Filter, ...]:
    """The filters of a front page: over panels of attacks and over tasks with defenses."""
    named = {task.name: task for task in view.tasks}
    used = [named[task] for panel in view.panels for task, _ in panel.lines]
    used += [each.task for each in view.defended]
    attacks = [attack.name for panel in view.panels for attack in panel.attacks]
    kinds = [line.entry.defense.split("[")[0] for each in view.defended for line in each.defenses]
    return _filters(used, attacks, kinds, told)


def matrix_options(view: SuiteView, told: Mapping[str, tuple[str, ...]]) -> tuple[Filter, ...]:
    """The filters of a matrix: over its lines and its columns."""
    used = [line.task for matrix in (*view.attacks, *view.defenses) for line in matrix.lines]
    attacks = [head.row.attack for matrix in view.attacks for head in matrix.heads]
    kinds = [head.row.record.defense for matrix in view.defenses for head in matrix.heads]
    return _filters(used, attacks, kinds, told)


def _filters(
    tasks: list[TaskRow],
    attacks: list[str],
    kinds: list[str],
    told: Mapping[str, tuple[str, ...]],
) -> tuple[Filter, ...]:
    families = dict.fromkeys(task.family for task in tasks)
    names = sorted({task.name for task in tasks})
    sizes = sorted({batch_of(task) for task in tasks}, key=lambda s: (" " in s, int(s.split()[0])))
    models = sorted({task.model for task in tasks if task.model})
    facts = sorted({fact for attack in attacks for fact in told_of(told.get(attack))})
    made = (
        Filter("family", "family", tuple((f, family_title(f)) for f in families)),
        Filter("task", "task", tuple((name, name.split("/", 1)[-1]) for name in names)),
        Filter("batch", "batch size", _plain(sizes)),
        Filter("model", "model", tuple((m, m.split(":", 1)[-1]) for m in models)),
        Filter("told", "attacker is told", tuple((f, f.replace("-", " ")) for f in facts)),
        Filter("defense", "defense", _plain(sorted(set(kinds)))),
        Filter("baseline", "baselines", (("no", "without"), ("yes", "only"))),
    )
    return tuple(each for each in made if len(each.values) > 1)


def _plain(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, value) for value in values)


@dataclass(frozen=True)
class PanelFacts:
    """What the lines of a panel can be filtered by, values separated by bars."""

    tasks: str
    batches: str
    models: str


def panel_facts(view: SuiteView, panel: AttackPanel) -> PanelFacts:
    """Of all tasks of a panel."""
    named = {task.name: task for task in view.tasks}
    tasks = [named[name] for name, _ in panel.lines]
    return PanelFacts(
        "|".join(task.name for task in tasks),
        "|".join(dict.fromkeys(map(batch_of, tasks))),
        "|".join(dict.fromkeys(task.model for task in tasks)),
    )
