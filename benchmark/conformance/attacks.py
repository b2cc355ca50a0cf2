"""What an attack does: on small tasks, again in another order, elsewhere, and knowing less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmark.conformance.attack_answers import AnswerCheck
from benchmark.conformance.attack_trials import AttackTrial, AttackTrials, answers, cut_short
from benchmark.conformance.baselines import METRICS, Baselines, scored
from benchmark.conformance.behavior import behavior, device_problems
from benchmark.conformance.metadata import OBJECTIVES
from benchmark.conformance.problems import Problem
from benchmark.conformance.target import Target
from benchmark.conformance.trial_settings import small_tasks, task_for, with_little_effort
from benchmark.conformance.trials import FEW, TrialOutcome, TrialRunner
from benchmark.plugins.catalog import Entry
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.suites import Task

Tried = tuple[AttackTrial, TrialOutcome]


class AttackCheck:
    """One attack in front of the conformance suite."""

    def __init__(
        self, runner: TrialRunner, target: Target, undefended: Entry, baselines: Baselines
    ) -> None:
        self.runner, self.entry, self.source = runner, target.entry, target.source
        self.trials = AttackTrials(runner, target.source, undefended)
        self.answers = AnswerCheck(target.source, runner.limits)
        self.baselines = baselines

    def problems(self, full: bool = True) -> Iterator[Problem]:
        """Everything that running it shows; `full` tries it at its own settings, too."""
        first = self._first_trials()
        self.trials.build([trial.task for trial in first])
        refused = {t.task: words for t in first if (words := self.trials.incompatibility(t))}
        tried = self._run([trial for trial in first if trial.task not in refused])
        for pair in tried:
            yield from self.answers.problems(*pair)
        refused |= {trial.task: outcome.refusal for trial, outcome in tried if outcome.refusal}
        working = [(trial, outcome) for trial, outcome in tried if outcome.worked]
        yield from self._objectives({trial.task for trial in first}, refused, working)
        if working:
            yield from self._repeated(working)
            yield from self._elsewhere(working)
            yield from self._knowing_less(working)
            yield from self._variants(working)
            yield from self._worth(working, full)

    def _run(self, trials: Sequence[AttackTrial]) -> list[Tried]:
        return list(zip(trials, self.trials.run(trials), strict=True))

    def _first_trials(self) -> list[AttackTrial]:
        """A small task of each family: a few snapshots of each objective, then one."""
        attack, suite = with_little_effort(self.entry), self.runner.suite
        found: list[AttackTrial] = []
        for first in small_tasks(suite):
            task = task_for(suite, first, self.entry.needed(attack.parameters))
            if task is not None and task.objective in self.entry.objectives:
                again = any(trial.task.objective == task.objective for trial in found)
                found.append(AttackTrial(task, attack, 1 if again else FEW))
        return found

    def _objectives(
        self, tasks: set[Task], refused: Mapping[Task, str], working: Sequence[Tried]
    ) -> Iterator[Problem]:
        """A known objective that is claimed has a task on which the attack works."""
        worked = {trial.task.objective for trial, _ in working}
        for objective in set(self.entry.objectives) & set(OBJECTIVES):
            reasons = [words for task, words in refused.items() if task.objective == objective]
            if not any(task.objective == objective for task in tasks):
                needs = " and ".join(sorted(self.entry.needed({}))) or "that"
                reasons = [f"no task of it grants {needs}"]
            if objective not in worked and reasons:
                words = f"it claims {objective} and works on no task of it: {reasons[0]}"
                advice = "take the objective out of `objectives`"
                yield self.source.problem("objectives", f"{words}; {advice}", "objectives")

    # ----------------------------------------------------------------------- again, and otherwise

    def _repeated(self, working: Sequence[Tried]) -> Iterator[Problem]:
        """The same seed once more: other global states, the other way round, one by one."""
        before = [(trial, outcome) for trial, outcome in working if not cut_short(outcome)]
        again = [replace(t, backwards=True, jointly=False, stir=1) for t, _ in before]
        for (trial, outcome), (_, other) in zip(before, self._run(again), strict=True):
            if not cut_short(other) and answers(other) != answers(outcome):
                yield self._difference(trial, outcome)
                return

    def _difference(self, trial: AttackTrial, before: TrialOutcome) -> Problem:
        """What it is that two answers differ by: chance, joint recovery or the order."""
        stirred, singly = self.trials.run([replace(trial, stir=2), replace(trial, jointly=False)])
        where = f"on {trial.task.name}"
        if answers(stirred) != answers(before):
            words = f"the same seed gives another answer {where}; draw from observation.seed alone"
            return self.source.problem("same seed", words, "recover")
        if answers(singly) != answers(before):
            words = f"recover_many answers otherwise than recover does {where}; make them agree"
            return self.source.problem("recover_many", words, "recover_many")
        words = (
            f"an answer depends on which snapshots came before it {where}; keep nothing from one "
            "recovery to the next, and do not rely on the order of the observations"
        )
        return self.source.problem("order", words, "recover")

    def _elsewhere(self, working: Sequence[Tried]) -> Iterator[Problem]:
        """On a stand-in for a GPU."""
        for _, outcome in self._run([replace(t, count=1, other_device=True) for t, _ in working]):
            yield from device_problems(outcome, self.source)

    def _knowing_less(self, working: Sequence[Tried]) -> Iterator[Problem]:
        """With what it needs and nothing of what it only uses."""
        needs = self.entry.needed(working[0][0].attack.parameters)
        used = [trial for trial, _ in working if trial.handed - needs]
        for pair in self._run([replace(trial, count=1, known=needs) for trial in used]):
            yield from self.answers.problems(*pair, check="knowledge")

    def _variants(self, working: Sequence[Tried]) -> Iterator[Problem]:
        """Variants that are handed other knowledge than the attack itself, one snapshot each."""
        trials = []
        for settings in self.entry.variants.values():
            variant = with_little_effort(self.entry, settings)
            if self.entry.told(variant.parameters) != self.entry.told({}):
                needs = self.entry.needed(variant.parameters)
                found = (task_for(self.runner.suite, trial.task, needs) for trial, _ in working)
                trials += [AttackTrial(task, variant, 1) for task in found if task][:1]
        self.trials.build([trial.task for trial in trials])
        for pair in self._run(trials):
            yield from self.answers.problems(*pair)

    # ---------------------------------------------------------------------------------- its worth

    def _worth(self, working: Sequence[Tried], full: bool) -> Iterator[Problem]:
        """Better than guessing somewhere: with little effort, or at its own settings."""
        own = self._at_its_own(working[0][0]) if full else []
        for _, outcome in own:
            yield from behavior(outcome, self.source, self.runner.limits)
        if self.entry.baseline or any(self._beats(*pair) for pair in (*working, *own)):
            return
        tasks = ", ".join(trial.task.name for trial, _ in working)
        words = f"it is nowhere better than guessing ({tasks}); is there something to learn from it"
        yield self.source.problem("baselines", words, "recover", warning=True)

    def _at_its_own(self, trial: AttackTrial) -> list[Tried]:
        """The same with the effort of its defaults, where that is more."""
        attack = ConfiguredSubmission(self.entry)
        return self._run([replace(trial, attack=attack)]) if trial.attack != attack else []

    def _beats(self, trial: AttackTrial, outcome: TrialOutcome) -> bool:
        guessed = self.baselines.best(self.trials, trial)
        reached = scored(self.trials, trial, outcome)
        return any(reached[metric] > guessed[metric] for metric in METRICS)
