"""What is wrong with what an attack answered in a trial, or with how it failed to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmark.conformance.attack_trials import AttackTrial
from benchmark.conformance.behavior import behavior, place_of
from benchmark.conformance.problems import Problem
from benchmark.conformance.source import SourceCode
from benchmark.conformance.trials import TrialLimits, TrialOutcome
from benchmark.execution.events import Noticed, Recovered
from benchmark.runs.attack_run import MAX_SENTENCES
from benchmark.status import Status


@dataclass(frozen=True)
class AnswerCheck:
    """Reads what came of an attack's trials."""

    source: SourceCode
    limits: TrialLimits

    def problems(
        self, trial: AttackTrial, tried: TrialOutcome, check: str = "runs"
    ) -> Iterator[Problem]:
        """Limits, files, network; exceptions; answers outside the contract."""
        yield from behavior(tried, self.source, self.limits)
        noticed = tried.outcome.events(Noticed)
        for event in noticed:
            if event.notice == "exception":
                yield self._raised(event, trial, check)
        for answer in tried.answers.values():
            yield from self._wrong(answer, trial)
        complaint = tried.outcome.complaint()
        if complaint and complaint.status is not Status.UNSUPPORTED and not noticed:
            words = f"it failed on {trial.task.name}: {complaint.reason}"
            yield self.source.problem(check, words, "recover")

    def _raised(self, event: Noticed, trial: AttackTrial, check: str) -> Problem:
        """An exception; where the code looks at what it was not handed, that is named."""
        place, words = place_of(event, self.source), f"{event.what} (on {trial.task.name})"
        for fact, (_, line, read) in self.source.facts_read().items():
            if fact not in trial.handed:
                words = (
                    f"{words}; {read} (line {line}) is empty where knowledge of {fact} is not "
                    f"handed over: add Knowledge.{fact.name} to `needs`, or do without it there"
                )
                return Problem("knowledge", *place, words)
        advice = "raise Unsupported with the reason where the method cannot do it by its nature"
        return Problem(check, *place, f"{words}; {advice}")

    def _wrong(self, answer: Recovered, trial: AttackTrial) -> Iterator[Problem]:
        if answer.status is Status.INVALID:
            words = f"{answer.reason} (on {trial.task.name}); return a Recovery of token ids"
            yield self.source.problem("contract", words, "recover")
        if len(answer.sentences) > MAX_SENTENCES:
            words = f"it returned {len(answer.sentences)} sentences, more than {MAX_SENTENCES}"
            yield self.source.problem("contract", words, "recover")
        if answer.status is Status.UNSUPPORTED and not answer.reason.strip():
            words = "it raises Unsupported without a reason; tell in a sentence what it cannot do"
            yield self.source.problem("runs", words, "recover")
