"""What guessing is worth on a few snapshots, which any attack should beat somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmark.conformance.attack_trials import AttackTrial, AttackTrials
from benchmark.conformance.trial_settings import with_little_effort
from benchmark.conformance.trials import TrialOutcome
from benchmark.metrics.decoding import Reader
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import load_task
from benchmark.results.measure import measure
from benchmark.spec import Recovery
from benchmark.status import Status

METRICS = ("rougeL", "type_f1")
"""Those that boards rank by: of sentences, and of token types."""
Values = dict[str, float]


@dataclass
class Baselines:
    """Baselines by task, tried once for all attacks that are checked."""

    entries: Sequence[Entry]
    _known: dict[tuple[str, int], Values] = field(default_factory=dict)

    def best(self, trials: AttackTrials, trial: AttackTrial) -> Values:
        """The best that any baseline reaches on the snapshots of a trial, by metric."""
        key = trial.task.name, trial.count
        if key not in self._known:
            guesses = [
                AttackTrial(trial.task, with_little_effort(entry), trial.count)
                for entry in self.entries
                if trial.task.objective in entry.objectives
                and entry.needed({}) <= {str(fact) for fact in trial.task.grants}
            ]
            reached = [
                scored(trials, guess, outcome)
                for guess, outcome in zip(guesses, trials.run(guesses), strict=True)
            ]
            self._known[key] = {m: max((r[m] for r in reached), default=0.0) for m in METRICS}
        return self._known[key]


def scored(trials: AttackTrials, trial: AttackTrial, tried: TrialOutcome) -> Values:
    """Means over the snapshots of a trial; one without an answer counts as 0."""
    side, snapshots = load_task(trial.task), trials.snapshots(trial)
    reader = Reader(side.decode, side.special_ids)
    found = []
    for index in snapshots.indices:
        event = tried.answers.get(index)
        recovery = Recovery()
        if event is not None and event.status is Status.OK:
            types = None if event.token_types is None else frozenset(event.token_types)
            recovery = Recovery(event.sentences, types)
        found.append(measure(snapshots.read_truth(index).truth(), recovery, reader))
    return {metric: fmean(values.get(metric, 0.0) for values in found) for metric in METRICS}
