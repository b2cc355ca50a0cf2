"""What the pages tell about tasks and submissions, as plain data.

The leaderboard never imports `tasks` or `submissions`: whoever calls it hands over a catalog,
filled from the registry. Records may name things that the catalog lacks; the site shows those
too, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import Broken, Kind, trained_as
from benchmark.spec import Scalar
from benchmark.suites import Suite, Task
from leaderboard.data.sources import Source, departures, source_of


@dataclass(frozen=True)
class SuiteRow:
    """A suite's name, its sentence, and the attacks that defenses have to face in it."""

    name: str
    summary: str
    panels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of attacks by objective."""


@dataclass(frozen=True)
class TaskRow:
    """The definition of a task, as its page shows it."""

    name: str
    family: str
    summary: str
    version: int = 1
    batch_size: int = 1
    batch_tokens: int | None = None
    min_tokens: int = 0
    max_tokens: int = 0
    snapshots: int = 0
    model: str = ""
    corpus: str = ""
    checkpoint: str = ""
    seen: str = ""
    """What the model and the prior have read of the task's text before."""
    mode: str = ""
    precision: str = ""
    tied: bool = False
    clients: int | None = None
    dirichlet_alpha: float | None = None
    grants: tuple[str, ...] = ()
    utility: tuple[str, ...] = ()
    """Metrics that cost a defense here."""
    trained_as: str = ""
    """The task whose training sets the cost: variants in batch size share one."""
    trained_batch: int | None = None
    """Sentences to a batch in that training."""
    panel: tuple[str, ...] = ()
    """Attacks that a defense has to face here before its worst case counts as known."""
    papers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParameterRow:
    """One setting of a submission."""

    name: str
    default: Scalar
    meaning: str


@dataclass(frozen=True)
class SubmissionRow:
    """An attack's or a defense's metadata."""

    kind: Kind
    name: str
    summary: str
    paper: str = ""
    parameters: tuple[ParameterRow, ...] = ()
    variants: tuple[tuple[str, Mapping[str, Scalar]], ...] = ()
    """Settings that the submission gives a name of their own."""
    observes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What an attack and each of its variants is handed where a task grants it, by name."""
    baseline: bool = False
    """An attack that guesses without reading the update."""
    digest: str = ""
    """Digest of the submission's source."""
    source: Source = field(default_factory=Source)
    departures: tuple[tuple[str, str], ...] = ()
    """What it does otherwise than its paper, and what that buys."""


@dataclass(frozen=True)
class BrokenRow:
    """A plug-in that did not load."""

    file: str
    reason: str


@dataclass(frozen=True)
class Catalog:
    """Everything the registry knows that a reader wants to see."""

    suites: tuple[SuiteRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    submissions: tuple[SubmissionRow, ...] = ()
    broken: tuple[BrokenRow, ...] = ()

    @property
    def baselines(self) -> frozenset[str]:
        """Attacks that guess without reading the update: what they score is no leak."""
        return frozenset(row.name for row in self.submissions if row.baseline)

    def task(self, name: str) -> TaskRow | None:
        """The task of that name, if the catalog has it."""
        return next((row for row in self.tasks if row.name == name), None)

    def submission(self, kind: Kind, name: str) -> SubmissionRow | None:
        """The attack or defense of that name, if the catalog has it."""
        return next((r for r in self.submissions if (r.kind, r.name) == (kind, name)), None)


def from_registry(
    suites: Iterable[Suite], entries: Iterable[Entry], broken: Iterable[Broken]
) -> Catalog:
    """The catalog of what the registry found; a task in several suites is listed once."""
    suites = tuple(suites)
    tasks = {task.name: (suite, task) for suite in reversed(suites) for task in suite.tasks}
    listed = dict.fromkeys(task.name for suite in suites for task in suite.tasks)
    return Catalog(
        suites=tuple(
            SuiteRow(suite.name, suite.summary, tuple(suite.panels.items())) for suite in suites
        ),
        tasks=tuple(task_row(*tasks[name]) for name in listed),
        submissions=tuple(submission_row(entry) for entry in entries),
        broken=tuple(BrokenRow(item.where, item.reason) for item in broken),
    )


def task_row(suite: Suite, task: Task) -> TaskRow:
    """What the leaderboard shows of a task of a suite."""
    return TaskRow(
        name=task.name,
        family=task.family,
        summary=task.summary,
        version=task.version,
        batch_size=task.batch_size,
        batch_tokens=task.batch_tokens,
        min_tokens=task.min_tokens,
        max_tokens=task.max_tokens,
        snapshots=task.snapshots,
        model=task.model,
        corpus=task.corpus,
        checkpoint=task.checkpoint,
        seen=task.seen,
        mode=task.mode,
        precision=task.precision,
        tied=task.tied,
        clients=task.clients,
        dirichlet_alpha=task.dirichlet_alpha,
        grants=tuple(sorted(task.grants)),
        utility=task.utility,
        trained_as=trained_as(task).name if task.training or task.federation else "",
        trained_batch=task.training.batch_size if task.training else None,
        panel=suite.panels.get(task.objective, ()),
        papers=task.papers,
    )


def submission_row(entry: Entry) -> SubmissionRow:
    """What the leaderboard shows of a submission that the registry found."""
    return SubmissionRow(
        kind=entry.kind,
        name=entry.name,
        summary=entry.summary,
        paper=entry.paper,
        parameters=tuple(
            ParameterRow(name, parameter.default, parameter.meaning)
            for name, parameter in entry.parameters.items()
        ),
        variants=tuple(sorted(entry.variants.items())),
        observes=tuple(sorted(entry.observes)),
        needs=tuple(sorted(entry.needs)),
        told={entry.name: tuple(sorted(entry.told({})))}
        | {name: tuple(sorted(entry.told(values))) for name, values in entry.variants.items()},
        baseline=entry.baseline,
        digest=entry.digest,
        source=source_of(entry.reference),
        departures=departures(entry.name),
    )
