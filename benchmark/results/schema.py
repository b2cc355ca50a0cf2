"""The strict result schema: what a record, a score and a worst case hold.

A record holds what was run and what came back; a score file holds the metrics computed from it.
Both refuse unknown keys and numbers written as strings.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from benchmark.files import Bytes, FiniteFloat, Megabytes, Parameters, Seconds, Strict, TokenId
from benchmark.plugins.names import variant
from benchmark.status import Status as Status  # part of what a record says

SCHEMA_VERSION = 1


class SnapshotResult(Strict):
    """What an attack returned for one snapshot."""

    index: Annotated[int, Field(ge=0)]
    digest: str
    """Digest over the inputs of the snapshot that was attacked."""
    status: Status
    reason: str = ""
    seconds: Seconds | None = None
    joint: bool = False
    """Whether the seconds are an equal share of a joint run over several snapshots."""
    sentences: list[list[TokenId]] = []
    texts: list[str] = []
    """The sentences decoded without special tokens."""
    token_types: list[TokenId] | None = None
    note: str = ""
    stopped_by_clock: bool = False
    """Whether the attack handed over early because the time limit was near."""


class Provenance(Strict):
    """Everything needed to repeat the cell."""

    fingerprint: str
    """Digest over task, model, corpus, attack, defense and seed; a cached cell must match it."""
    attack_digest: str
    defense_digest: str
    git_commit: str
    git_dirty: bool
    packages: dict[str, str]
    python: str
    platform: str
    processor: str
    cores: int
    memory_gb: FiniteFloat
    device: str
    threads: int
    tf32: bool
    sandbox: str
    """What kept the submission from the truth and the network."""
    created: datetime
    """UTC."""


class Measured(Strict):
    """What every result says: which task and defense it is of, how it ended, where it was made."""

    schema_version: Literal[1] = 1
    suite: str
    task: str
    task_version: int
    defense: str
    defense_parameters: Parameters = {}
    defense_variant: str = ""
    """The name that the submission itself gives to these parameters, if it does."""
    seed: int
    status: Status
    reason: str = ""
    peak_mb: Megabytes | None = None
    device_peak_mb: Megabytes | None = None
    bytes_up: Bytes | None = None
    """Mean bytes a client sends in a round under this defense."""
    epsilon: FiniteFloat | None = None
    provenance: Provenance

    @property
    def defense_name(self) -> str:
        """The defense as it is called everywhere: its variant's name, or with its parameters."""
        return self.defense_variant or variant(self.defense, self.defense_parameters)


class Record(Measured):
    """One cell: a task, an attack and a defense with their parameters, and a seed."""

    attack: str
    attack_parameters: Parameters = {}
    attack_variant: str = ""
    told: list[str] | None = None
    """Knowledge that the attack was handed; None in records from before that was written down."""
    snapshots: list[SnapshotResult] = []
    prepare_seconds: Seconds | None = None

    @property
    def attack_name(self) -> str:
        """The attack likewise."""
        return self.attack_variant or variant(self.attack, self.attack_parameters)


class UtilityRecord(Measured):
    """One training of a task's model with the updates of a defense, and what became of it."""

    metrics: dict[str, FiniteFloat] = {}
    """The task's utility metrics on the test split."""
    validation: list[FiniteFloat] = []
    """Validation loss before training and at each check of it."""
    rounds: int | None = None
    """Updates that were sent; fewer than the budget where training ended early."""
    step_seconds: Seconds | None = None
    """Mean time in which the client made an update."""


class MetricValue(Strict):
    """Mean over the task's snapshots with a bootstrap interval."""

    mean: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    n: int
    values: list[FiniteFloat]
    """One value per snapshot, in order of the snapshots; a failed snapshot counts as 0."""


class Example(Strict):
    """A private sentence beside what was recovered of it, for readers of the leaderboard."""

    index: int
    truth: str
    recovered: str


class Score(Strict):
    """The metrics of one record."""

    schema_version: Literal[1] = 1
    record_digest: str
    """sha256 of the record file that was scored; a changed record needs scoring again."""
    scorer_digest: str = ""
    """Of the code of the metrics; changed metrics need scoring again."""
    metrics: dict[str, MetricValue]
    examples: list[Example] = []


class StrongestAttack(Strict):
    """The largest value that any attack reached."""

    attack: str
    seed: int
    value: MetricValue
    rivals: int
    """How many attacks were tried."""


class WorstCase(Strict):
    """What a defense leaves on a task: the worst case over all attacks that were scored."""

    schema_version: Literal[1] = 1
    task: str
    task_version: int
    defense: str
    """With its parameters, as it is called everywhere."""
    worst: dict[str, StrongestAttack]
    """By recovery metric."""
