"""The strict result schema: what a record, a score and a worst case hold.

A record holds what was run and what came back; a score file holds the metrics computed from it.
Both refuse unknown keys and numbers written as strings.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from benchmark.files import (
    Bytes,
    FiniteFloat,
    Megabytes,
    Name,
    Note,
    Packages,
    Parameters,
    RecordedReason,
    Seconds,
    Strict,
    Text,
    TokenId,
)
from benchmark.plugins.names import variant
from benchmark.status import Status as Status  # part of what a record says

SCHEMA_VERSION = 2
"""2 records whether the attack is a baseline, and the panel and seed of a worst case."""
Version = Literal[1, 2]


class SnapshotResult(Strict):
    """What an attack returned for one snapshot."""

    index: Annotated[int, Field(ge=0)]
    digest: Text
    """Digest over the inputs of the snapshot that was attacked."""
    status: Status
    reason: RecordedReason = ""
    seconds: Seconds | None = None
    joint: bool = False
    """Whether the seconds are an equal share of a joint run over several snapshots."""
    sentences: list[list[TokenId]] = []
    texts: list[str] = []
    """The sentences decoded without special tokens."""
    token_types: list[TokenId] | None = None
    note: Note = ""
    stopped_by_clock: bool = False
    """Whether the attack handed over early because the time limit was near."""


class Provenance(Strict):
    """Everything needed to repeat the cell."""

    fingerprint: Text
    """Digest over task, model, corpus, attack, defense and seed; a cached cell must match it."""
    attack_digest: Text
    defense_digest: Text
    git_commit: Text
    git_dirty: bool
    packages: Packages
    python: Text
    platform: Text
    processor: Text
    cores: int
    memory_gb: FiniteFloat
    device: Text
    threads: int
    tf32: bool
    sandbox: Text
    """What kept the submission from the truth and the network."""
    created: datetime
    """UTC."""


class Measured(Strict):
    """What every result says: which task and defense it is of, how it ended, where it was made."""

    schema_version: Version = 2
    suite: Name
    task: Name
    task_version: int
    defense: Name
    defense_parameters: Parameters = {}
    defense_variant: Name = ""
    """The name that the submission itself gives to these parameters, if it does."""
    seed: int
    status: Status
    reason: RecordedReason = ""
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

    attack: Name
    attack_parameters: Parameters = {}
    attack_variant: Name = ""
    told: Annotated[list[Name], Field(max_length=100)] | None = None
    """Knowledge that the attack was handed; None in records from before that was written down."""
    baseline: bool | None = None
    """Whether the attack only guesses; None in records of version 1."""
    snapshots: list[SnapshotResult] = []
    prepare_seconds: Seconds | None = None
    withheld: Text = ""
    """Of a record that was published without what was recovered: digest over all that was."""

    @property
    def ruled_out(self) -> bool:
        """The task or the defense is outside of what the attack declares, so nothing was attacked.

        An attack that was handed snapshots and refused them has recovered nothing of them.
        """
        return self.status is Status.UNSUPPORTED and not self.snapshots

    @property
    def snapshot_set(self) -> str:
        """Digest over the snapshots that were attacked; empty where it did not come to that."""
        attacked = sorted((result.index, result.digest) for result in self.snapshots)
        return hashlib.sha256(repr(attacked).encode()).hexdigest() if attacked else ""

    @property
    def attack_name(self) -> str:
        """The attack likewise."""
        return self.attack_variant or variant(self.attack, self.attack_parameters)


class RoundResult(Strict):
    """One round of a federated training."""

    round: Annotated[int, Field(ge=1)]
    answered: int
    """Clients whose updates were taken in."""
    dropped: int = 0
    """Clients that never answered."""
    failed: int = 0
    """Clients that were left out, because they failed, took too long or sent what is no update."""
    bytes_up: Bytes = 0.0
    """Sent by all clients together."""
    bytes_down: Bytes = 0.0
    accuracy: FiniteFloat | None = None
    """On validation rows, mean over the models of the clients that answered."""


class FederatedResult(Strict):
    """What a federated training adds to its record."""

    rounds: list[RoundResult] = []
    bytes_down: Bytes = 0.0
    """Mean bytes a client receives in a round."""
    failures: dict[Annotated[str, Field(max_length=3000)], int] = {}
    """Reasons for which clients were left out, and how often."""
    global_accuracies: list[FiniteFloat] = []
    """Of each client's model on the common test rows."""
    local_accuracies: list[FiniteFloat | None] = []
    """On the client's own test rows; None where it has none."""
    label_counts: list[list[Annotated[int, Field(ge=0)]]] = []
    """Training rows of each client by label."""


class UtilityRecord(Measured):
    """One training of a task's model with the updates of a defense, and what became of it."""

    metrics: dict[Text, FiniteFloat] = {}
    """The task's utility metrics on the test split."""
    validation: list[FiniteFloat] = []
    """Validation loss before training and at each check of it."""
    rounds: int | None = None
    """Updates that were sent; fewer than the budget where training ended early."""
    step_seconds: Seconds | None = None
    """Mean time in which the client made an update."""
    federated: FederatedResult | None = None


class MetricValue(Strict):
    """Mean over the task's snapshots with its 95 % interval, or a single value without one."""

    mean: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    n: int
    values: list[FiniteFloat]
    """One value per snapshot, in order of the snapshots; a failed snapshot counts as 0."""


class Example(Strict):
    """A private sentence beside what was recovered of it, for readers of the leaderboard."""

    index: int
    """The snapshot."""
    sentence: int = 0
    """Place of the sentence in its batch."""
    truth: str
    recovered: str


class Score(Strict):
    """The metrics of one record."""

    schema_version: Version = 2
    record_digest: Text
    """sha256 of the record file that was scored; a changed record needs scoring again."""
    scorer_digest: Text = ""
    """Of the code of the metrics; changed metrics need scoring again."""
    truths: Text = ""
    """Digest over the private batches and weights behind the snapshots, the same under every
    defense, so that defenses are compared on the same text; empty in scores of version 1."""
    metrics: dict[Text, MetricValue]
    examples: list[Example] = []


class StrongestAttack(Strict):
    """The largest value that any attack reached."""

    attack: str
    value: MetricValue
    rivals: int
    """How many attacks were tried."""
    baseline: bool | None = None
    """Whether it only guesses, so that nothing was read from the update; None where unknown."""


PanelOutcome = Literal["scored", "unsupported", "failed", "timeout", "not scored", "not run"]


class PanelMember(Strict):
    """What became of one attack of the panel that a defense has to face."""

    attack: str
    outcome: PanelOutcome
    """`unsupported`: the task or the defense rules the attack out, which counts as tried. `failed`
    and `timeout`: on at least one snapshot."""
    reason: str = ""

    @property
    def tried(self) -> bool:
        """Whether the attack has shown what it can do here."""
        return self.outcome in ("scored", "unsupported")


class WorstCase(Strict):
    """What a defense leaves on a task: the worst case over all attacks on the same snapshots."""

    schema_version: Literal[2] = 2
    task: str
    task_version: int
    defense: str
    """With its parameters, as it is called everywhere."""
    seed: int
    snapshots: str
    """Digest over the snapshots that all these attacks were run on."""
    truths: str
    """Digest over the private batches behind them: defenses are compared on the same ones."""
    panel: list[PanelMember]
    """The attacks that the suite has every defense face; others may be the strongest, too."""
    worst: dict[str, StrongestAttack]
    """By recovery metric."""

    @property
    def missing(self) -> tuple[PanelMember, ...]:
        """Attacks of the panel that failed, or that nobody has run."""
        return tuple(member for member in self.panel if not member.tried)

    @property
    def complete(self) -> bool:
        """Whether the whole panel was tried; if not, the true worst case may be worse."""
        return bool(self.panel) and not self.missing
