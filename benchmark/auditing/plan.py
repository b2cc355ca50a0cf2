"""Which cells an audit runs, in which order, and which of them it did not come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.auditing.conditions import Key, key_of
from benchmark.auditing.report import NotTried
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task
from benchmark.plugins.selection import ConfiguredSubmission, choose, is_broken
from benchmark.runs.plan import Cell, Selection, make_cell
from benchmark.runs.utility_plan import Trial, make_trial
from benchmark.suites import NO_DEFENSE, Suite

OTHERS = "*"
"""In a plan: all attacks that it does not name."""


@dataclass
class AuditPlan:
    """What is left to do, in order."""

    todo: list[Cell]
    trials: list[Trial]
    not_tried: list[NotTried] = field(default_factory=list)

    def take(self, most: int, solved: set[Key]) -> list[Cell]:
        """The next cells; those of conditions where nothing is left to be read come last."""
        ordered = sorted(self.todo, key=lambda cell: key_of(cell) in solved)
        taken = ordered[:most]
        self.todo = [cell for cell in self.todo if cell not in taken]
        return taken

    def give_up(self, reason: str) -> None:
        """Nothing more is run."""
        for cell in self.todo:
            defense, batch_size = key_of(cell)
            self.not_tried.append(
                NotTried(
                    attack=cell.attack.name, defense=defense, batch_size=batch_size, reason=reason
                )
            )
        self.todo = []


def make_plan(
    suite: Suite, attacks: Catalog, defenses: Catalog, results: Path, seed: int
) -> AuditPlan:
    """All cells and trainings of a suite over a user's own model; unknown names are refused."""
    selection = Selection(suite.name, seed=seed)
    sides = {task.name: load_task(task) for task in suite.tasks}
    todo: dict[Path, Cell] = {}
    for line in suite.plan:
        for defense in choose(defenses, "defense", line.defense):
            for attack in _attacks(suite, attacks, line.attack):
                cell = make_cell(selection, sides[line.task], attack, defense, results)
                todo.setdefault(cell.path, cell)
    trials = [
        make_trial(selection, sides[line.task], defense, seed, results)
        for line in suite.utility
        for defense in choose(defenses, "defense", line.defense)
    ]
    batch_size = suite.tasks[0].batch_size
    broken = [
        NotTried(
            attack=Path(item.where).stem,
            defense=NO_DEFENSE,
            batch_size=batch_size,
            reason=f"it is broken: {item.reason}",
        )
        for item in attacks.broken
    ]
    return AuditPlan(list(todo.values()), trials, broken)


def _attacks(suite: Suite, attacks: Catalog, name: str) -> Iterator[ConfiguredSubmission]:
    """The attack that a line names, or all that no line names, as they are by default."""
    known = attacks.names()
    if name != OTHERS:
        if not is_broken(attacks, name):
            yield from choose(attacks, "attack", name)
        return
    named = {known[line.attack][0].name for line in suite.plan if line.attack in known}
    yield from (ConfiguredSubmission(e) for n, e in attacks.entries.items() if n not in named)
