"""What a submission has to be run on before it is published: derived from the suite's own plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task, trained_as
from benchmark.plugins.selection import ConfiguredSubmission, choose, choose_tasks, is_broken
from benchmark.runs.compatibility import incompatibility_with_task
from benchmark.runs.plan import Cell, Selection, make_cell
from benchmark.runs.utility_plan import SEEDS, Trial, make_trial
from benchmark.suites import NO_DEFENSE, Suite, Task

FIRST_PUBLISHED_SEED = 100
"""Lower ones are for tuning, so nothing that was tuned on them is published."""
Pair = tuple[Task, ConfiguredSubmission, ConfiguredSubmission]
"""A task, an attack and a defense."""


@dataclass(frozen=True)
class OfficialPlan:
    """Cells, and trainings of a defense, that make a submission comparable with the others."""

    cells: Sequence[Cell]
    trials: Sequence[Trial]

    @property
    def missing(self) -> list[Cell | Trial]:
        """What has no current record yet."""
        every: list[Cell | Trial] = [*self.cells, *self.trials]
        return [run for run in every if not run.cached]


@dataclass(frozen=True)
class Planner:
    """Derives official plans from a suite and what there is to combine a submission with."""

    suite: Suite
    attacks: Catalog
    defenses: Catalog
    seed: int
    results: Path

    def plan(self, submission: ConfiguredSubmission) -> OfficialPlan:
        """Everything that a submission is run on, less what its metadata rules out."""
        choice = Selection(self.suite.name, seed=self.seed)
        cells: dict[Path, Cell] = {}
        for task, attack, defense in self._pairs(submission):
            cell = make_cell(choice, load_task(task), attack, defense, self.results)
            if incompatibility_with_task(cell) is None:
                cells.setdefault(cell.path, cell)
        return OfficialPlan(list(cells.values()), list(self._trials(choice, submission)))

    def _pairs(self, submission: ConfiguredSubmission) -> Iterator[Pair]:
        """An attack in place of every one of the suite's plan; a defense where it has some."""
        is_attack = submission.entry.kind == "attack"
        for line in self.suite.plan:
            broken = is_broken(self.attacks, line.attack) or is_broken(self.defenses, line.defense)
            if broken or (not is_attack and line.defense == NO_DEFENSE):
                continue
            for task in choose_tasks(self.suite, line.task):
                if is_attack:
                    for defense in choose(self.defenses, "defense", line.defense):
                        yield task, submission, defense
                else:
                    for attack in choose(self.attacks, "attack", line.attack):
                        yield task, attack, submission

    def _trials(self, choice: Selection, submission: ConfiguredSubmission) -> Iterator[Trial]:
        """The trainings that the suite's plan makes with other defenses."""
        if submission.entry.kind == "attack":
            return
        lines = (choose_tasks(self.suite, line.task) for line in self.suite.utility)
        for task in dict.fromkeys(trained_as(task) for tasks in lines for task in tasks):
            for seed in range(self.seed, self.seed + SEEDS):
                yield make_trial(choice, load_task(task), submission, seed, self.results)


def choose_one(kind: str, catalog: Catalog, name: str) -> ConfiguredSubmission:
    """The one submission, variant or setting that a name stands for."""
    found = choose(catalog, kind, name)
    if len(found) != 1:
        raise UserError(f"{name} stands for {len(found)} submissions; name one of them.")
    return found[0]


def check_seed(seed: int) -> int:
    """Refuse a seed that is for tuning."""
    if seed < FIRST_PUBLISHED_SEED:
        raise UserError(
            f"Seed {seed} is for tuning; official results have seeds from "
            f"{FIRST_PUBLISHED_SEED} on."
        )
    return seed
