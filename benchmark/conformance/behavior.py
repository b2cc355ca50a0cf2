"""What any trial may show, of attacks and of defenses: broken limits, files, network, errors."""

from __future__ import annotations

from collections.abc import Iterator

from benchmark.conformance.problems import Problem
from benchmark.conformance.source import SourceCode
from benchmark.conformance.trials import TrialLimits, TrialOutcome
from benchmark.execution.events import Done, Noticed
from benchmark.plugins.candidates import relative
from benchmark.status import Status

METHODS = ("recover", "client_update", "local_update", "transform")
ADVICE = {
    "network": ("network", "a submission has no network: put what it needs into its code"),
    "process": ("network", "a submission runs in one process"),
    "read": ("files", "a submission has only what it is handed"),
    "write": ("files", "keep what it needs in memory, or write below the working directory"),
}
"""By notice: the check that it belongs to, and what to do."""


def behavior(tried: TrialOutcome, source: SourceCode, limits: TrialLimits) -> Iterator[Problem]:
    """Limits that were broken, a process that ended by itself, files and network."""
    outcome, where = tried.outcome, f"on {tried.task} as {tried.setting}"
    if outcome.status is Status.TIMEOUT:
        words = (
            f"it did not end within {limits.seconds:g} s {where}; bound its work by a parameter "
            "such as `steps`, or look at observation.seconds_left()"
        )
        yield source.problem("time", words, *METHODS)
    peaks = [event.peak_mb for event in outcome.events(Done)]
    if outcome.status is Status.OUT_OF_MEMORY or max(peaks, default=0.0) > limits.memory_mb:
        taken = f"{max(peaks):.0f} MiB" if peaks else "more"
        words = (
            f"it took {taken} {where}, and may take {limits.memory_mb:.0f} MiB; "
            "work in parts, or keep less at once"
        )
        yield source.problem("memory", words, *METHODS)
    if outcome.status is Status.ERROR:
        words = f"it ended its process {where}: {outcome.reason}"
        yield source.problem("runs", words, *METHODS)
    for event in outcome.events(Noticed):
        if event.notice in ADVICE:
            check, advice = ADVICE[event.notice]
            yield Problem(check, *place_of(event, source), f"it {event.what}; {advice}")


def device_problems(tried: TrialOutcome, source: SourceCode) -> Iterator[Problem]:
    """Mixed devices; whatever else a stand-in for a GPU cannot do is no fault of a submission."""
    for event in tried.outcome.events(Noticed):
        if event.notice == "device":
            words = f"it {event.what} (on {tried.task})"
            yield Problem("device", *place_of(event, source), words)


def place_of(event: Noticed, source: SourceCode) -> tuple[str, int]:
    """Where something was noticed; the class where no line of the submission took part."""
    return (relative(event.file), event.line) if event.line else source.place(*METHODS)
