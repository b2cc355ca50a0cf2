"""What a worker is asked to do: one strict model for each kind of job.

A :class:`Job` stays in the harness. What crosses the process border, as JSON, is its `work` inside
an :class:`Assignment`; what comes back are events, gathered in an :class:`Outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from benchmark.execution.events import Event, Failed, NotLoaded
from benchmark.execution.machine import Machine
from benchmark.files import FiniteFloat, Strict
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.registry import Kind
from benchmark.spec import Knowledge
from benchmark.status import Status
from benchmark.suites import Federation, Mode, ObjectiveName, Precision, Task, Training

DESCRIBE_SECONDS = 120.0
Said = TypeVar("Said", bound=Event)


# --------------------------------------------------------------------------------- kinds of jobs


class DescribeJob(Strict):
    """Load a submission and emit its description."""

    sees_private: ClassVar[bool] = False

    kind: Literal["describe"] = "describe"
    submission: str
    role: Kind


class ClientSettings(Strict):
    """How a client of a task computes: what turns a batch into an update."""

    objective: ObjectiveName
    precision: Precision
    mode: Mode
    local_steps: int
    learning_rate: FiniteFloat
    training: Training | None
    federation: Federation | None = None

    @classmethod
    def of(cls, task: Task) -> ClientSettings:
        """The settings that a task declares."""
        return cls(
            objective=task.objective,
            precision=task.precision,
            mode=task.mode,
            local_steps=task.local_steps,
            learning_rate=task.learning_rate,
            training=task.training,
            federation=task.federation,
        )


class PrivateBatchFile(Strict):
    """One private batch that a client makes an update of."""

    index: int
    file: str
    warmup: tuple[str, ...] = ()
    """Batches that the client trains on first."""
    seed: int
    out: str
    """Name of the update's file."""
    rows: str = ""
    """Federated tasks: the client's own training rows, which it adapts to first."""
    state: str = ""
    """Federated tasks: what the client has kept from earlier rounds, if it took part in one."""


class UpdateJob(Strict):
    """Run a defense's client on private batches and store what leaves the client."""

    sees_private: ClassVar[bool] = True

    kind: Literal["update"] = "update"
    client: ClientSettings
    defense: tuple[SubmissionCall, ...]
    seed: int
    """Of what a defense draws when it is made."""
    momentum: FiniteFloat
    batches: tuple[PrivateBatchFile, ...]
    received: str = ""
    """Federated tasks: the shared parameters of a later round than the first."""


class TrainJob(Strict):
    """Train a task's model with a defense's updates."""

    sees_private: ClassVar[bool] = True

    kind: Literal["train"] = "train"
    client: ClientSettings
    defense: tuple[SubmissionCall, ...]
    seed: int


class EvaluateJob(Strict):
    """Test a trained model; no submission is loaded."""

    sees_private: ClassVar[bool] = True

    kind: Literal["evaluate"] = "evaluate"
    client: ClientSettings
    max_tokens: int


class ClientFile(Strict):
    """One client of a federated task: its training rows and what it has kept."""

    index: int
    seed: int
    rows: str
    state: str = ""
    """Empty where the client has not taken part yet."""


class RoundJob(Strict):
    """Let clients of a federated task train for one round, one after another."""

    sees_private: ClassVar[bool] = True

    kind: Literal["round"] = "round"
    client: ClientSettings
    defense: tuple[SubmissionCall, ...]
    seed: int
    round: int
    """Counted from 0."""
    received: str
    """The shared parameters as the server sends them."""
    clients: tuple[ClientFile, ...]


class PersonalizeJob(Strict):
    """Let clients of a federated task adapt to the last parameters, for a model to be tested."""

    sees_private: ClassVar[bool] = True

    kind: Literal["personalize"] = "personalize"
    client: ClientSettings
    defense: tuple[SubmissionCall, ...]
    seed: int
    round: int
    received: str
    clients: tuple[ClientFile, ...]


class PersonalWeights(Strict):
    """Where a client's model differs from what the server sends."""

    index: int
    file: str = ""
    """Empty where it does not."""
    rows: tuple[int, ...] = ()
    """Numbers of the rows that it is tested on; empty: all."""


class ClientTestJob(Strict):
    """Test the models of clients on the same rows; no submission is loaded."""

    sees_private: ClassVar[bool] = True

    kind: Literal["client-test"] = "client-test"
    client: ClientSettings
    received: str
    rows: str
    clients: tuple[PersonalWeights, ...]


class TaskFacts(Strict):
    """What an attack is told about a task before any update; files carry the rest."""

    task: str
    objective: ObjectiveName
    precision: Precision
    batch_size: int
    batch_tokens: int | None
    max_tokens: int
    grants: frozenset[Knowledge]
    """What the attack is handed of the knowledge that the task grants."""
    prior: Literal["self", "file"] | None
    """The observed model itself, or the model in the folder `prior`."""
    prior_shares_ids: bool
    seed: int


class SnapshotFacts(Strict):
    """What an attack is told about one snapshot; None where it is not told."""

    index: int
    file: str
    update_kind: Literal["gradient", "difference"]
    local_steps: int
    learning_rate: FiniteFloat
    batch_size: int
    seed: int
    noise_scale: FiniteFloat | None
    labels: tuple[int, ...] | None
    lengths: tuple[int, ...] | None
    frequencies: dict[int, int] | None
    type_count: int | None


class RecoverJob(Strict):
    """Recover the text behind the snapshots of one task."""

    sees_private: ClassVar[bool] = False

    kind: Literal["recover"] = "recover"
    attack: SubmissionCall
    task: TaskFacts
    snapshots: tuple[SnapshotFacts, ...]


class CheckJob(Strict):
    """Make updates or recover text under observation: how a submission behaves, and where."""

    kind: Literal["check"] = "check"
    work: Annotated[UpdateJob | RecoverJob, Field(discriminator="kind")]
    sources: tuple[str, ...]
    """Files or folders of the submission, to tell its lines from those of libraries."""
    jointly: bool = True
    """Whether an attack may recover several snapshots in one call."""
    stir: int = 0
    """Other than 0: Python's and NumPy's own generators begin in a state of their own."""
    other_device: bool = False
    """Whether the tensors lie on a stand-in for a GPU."""

    @property
    def sees_private(self) -> bool:
        """Like the job that it observes."""
        return self.work.sees_private


Work = (
    DescribeJob
    | UpdateJob
    | TrainJob
    | EvaluateJob
    | RoundJob
    | PersonalizeJob
    | ClientTestJob
    | RecoverJob
    | CheckJob
)


# ------------------------------------------------------------------------- across process borders


class Assignment(Strict):
    """A job as it reaches a worker: what to do, where, with what and within which limits."""

    work: Annotated[Work, Field(discriminator="kind")]
    inbox: Path
    """Folder of the files that the job was given."""
    outbox: Path
    """Folder for the files that the job makes."""
    device: str
    threads: int
    time_limit: FiniteFloat
    memory_limit_mb: FiniteFloat


@dataclass(frozen=True)
class Job:
    """One piece of work for a sandboxed process, and what the harness does once it has ended."""

    work: Work
    """What the worker is told; file names in it are relative to its inbox or outbox."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What the worker is given: name in the inbox, and where the file or folder lies."""
    time_limit: float = 600.0
    memory_limit_mb: float = 1e9
    label: str = ""
    """Label shown in progress output."""
    finished: Callable[[Outcome], Iterable[Job]] = lambda outcome: ()
    """Handles the outcome in the harness, and may ask for more jobs."""
    expected_seconds: float | None = None
    """From earlier records; None: nobody knows, or others wait for it."""


@dataclass(frozen=True)
class Outcome:
    """How a job ended and everything it said."""

    job: Job
    status: Status
    reason: str
    said: list[Event]
    log: str
    made: Path
    """Folder of the files that the job wrote; whoever handles the outcome may move them."""
    device: str
    lost: bool = False
    """Whether the worker went away before the job could end, for no reason that it gave."""
    machine: Machine | None = None
    """Where it ran, if not on the machine of the harness."""

    def events(self, kind: type[Said]) -> list[Said]:
        """The worker's events of one kind, in order."""
        return [event for event in self.said if isinstance(event, kind)]

    def complaint(self) -> NotLoaded | Failed | None:
        """The first thing that the worker said went wrong with the job as a whole."""
        return next((event for event in self.said if isinstance(event, NotLoaded | Failed)), None)


def hand_over(outcome: Outcome) -> Iterable[Job]:
    """Let a job's own `finished` handle its outcome."""
    return outcome.job.finished(outcome)
