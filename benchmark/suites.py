"""What a suite declares: tasks, the budgets to train on them, and a default plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmark.spec import Batch, Budget, Knowledge, Roles, Truth

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_DEFENSE = "none"
"""Name of the defense that changes nothing, which everything is compared with."""

Family = Literal["language-modeling", "classification", "translation", "federated"]
ObjectiveName = Literal["causal-lm", "classification", "translation"]
Precision = Literal["float32", "float64"]
Mode = Literal["eval", "train"]
"""Whether dropout is off or on while a gradient is taken."""
Seen = Literal["nothing", "domain", "private", "unknown"]

SEEN: Mapping[Seen, str] = {
    "nothing": "no text of this corpus",
    "domain": "public text of this corpus, but no private sentence and no sentence of its pattern",
    "private": "the very sentences that are attacked",
    "unknown": "published weights: what they were trained on may hold the private sentences",
}
"""What the observed model and the prior have read of a task's text before, in words."""


@dataclass(frozen=True)
class Training:
    """The fixed budget in which a defense has to train the task's model, and so shows its cost."""

    rows: int
    """Training sentences: the private ones, and public ones where those are too few."""
    epochs: int
    batch_size: int
    learning_rate: float
    """At the start; it falls linearly to zero."""
    checks: int = 4
    """How often, evenly spread, the validation loss is looked at."""
    early_stopping: bool = False
    """End as soon as the validation loss has risen, and keep the weights from before."""
    validation_rows: int = 150
    test_rows: int = 350
    max_tokens: int = 64
    """Where sentences are cut."""

    @property
    def rounds(self) -> int:
        """Updates that are sent in all."""
        return self.epochs * (self.rows // self.batch_size)

    @property
    def sampling_rate(self) -> float:
        """Share of the training sentences that an update is made from."""
        return self.batch_size / self.rows

    @property
    def delta(self) -> float:
        """Of (ε, δ) differential privacy: one over the number of sentences."""
        return 1 / self.rows

    @property
    def budget(self) -> Budget:
        """What a defense is told of it."""
        return Budget(self.rounds, self.sampling_rate, self.delta)


@dataclass(frozen=True)
class Federation:
    """The fixed budget in which a defense's clients train together, round by round."""

    clients: int = 100
    sampled: int = 10
    """Clients that the server asks in a round."""
    rounds: int = 20
    alpha: float = 1.0
    """Of the Dirichlet distribution by which each label is dealt out to the clients."""
    epochs: int = 1
    """Local passes of a client in a round."""
    batch_size: int = 8
    learning_rate: float = 5e-3
    """Of the client's own Adam; falls linearly with the rounds where `decay`."""
    decay: bool = False
    clip: float = 15.0
    """Largest norm of a local step's gradient."""
    dropout_rate: float = 0.0
    """Share of the sampled clients that never answer."""
    checks: int = 10
    """How often, evenly spread, the validation accuracy is looked at."""
    validation_rows: int = 150
    test_rows: int = 850
    """Of all clients' own tests together."""
    global_rows: int = 300
    """Of those, the ones that every client is tested on."""
    max_tokens: int = 64
    """Where sentences are cut."""
    local_rows: int = 40
    """Training sentences of a client on average."""

    @property
    def budget(self) -> Budget:
        """What a defense is told of it: local steps, and the share of all rows in one of them."""
        steps = max(1, self.local_rows // self.batch_size) * self.epochs
        rate = self.batch_size / self.local_rows * self.sampled / self.clients
        return Budget(self.rounds * steps, min(1.0, rate), 1 / (self.clients * self.local_rows))

    @property
    def looks(self) -> frozenset[int]:
        """Rounds after which the validation accuracy is looked at; the last is one of them."""
        steps = range(1, self.checks + 1)
        return frozenset(max(1, round(self.rounds * step / self.checks)) for step in steps)


@dataclass(frozen=True)
class Footprint:
    """What a model takes, as its publisher states it: for a plan whose weights are not here yet."""

    parameters: float
    """In millions."""
    download_mb: float = 0.0


@dataclass(frozen=True)
class Task:
    """One measured situation. A correction gets a new version; an old one is never edited."""

    name: str
    """`<suite>/<task>`, for instance `mini/cola-b4`."""
    family: Family
    summary: str
    """One sentence for a reader of the leaderboard."""
    corpus: str
    """`<source>:<name>`, source one of builtin, data, hub."""
    model: str
    """`<source>:<name>`, source one of builtin, package, trained, dir, hub."""
    objective: ObjectiveName
    version: int = 1
    batch_size: int = 1
    batch_tokens: int | None = None
    """Where set, a batch is filled with sentences up to this many target tokens instead."""
    snapshots: int = 8
    grants: frozenset[Knowledge] = frozenset()
    prior: str | None = None
    """A language model the attacker may consult: a model reference, or `self` for the observed
    model where that is a language model already."""
    checkpoint: str = ""
    """How the observed weights came about, in words."""
    seen: Seen = "unknown"
    """What the observed model and the prior have read of the task's text before: see `SEEN`."""
    head: Literal["trained", "fresh"] = "trained"
    """`fresh`: the classification head is drawn from `head_seed`, as at the start of training."""
    head_seed: int = 0
    labels: int = 0
    """Number of classes of a classification task."""
    mode: Mode = "eval"
    precision: Precision = "float32"
    tied: bool = False
    """Whether input and output embeddings are one matrix. Checked when the model is loaded."""
    min_tokens: int = 3
    """Private sentences shorter than this (special tokens counted) are not drawn."""
    max_tokens: int = 64
    """Private sentences longer than this (special tokens counted) do not fit."""
    fit: Literal["drop", "cut", "join"] = "drop"
    """What is done about those: `drop` does not draw them, `cut` cuts them off there, `join` also
    joins the next sentences to one that is shorter, until so many tokens are full."""
    local_steps: int = 1
    """Where above 1, a client takes so many steps, each on an equal part of its batch, and shares
    the difference of its weights (FedAvg) instead of a gradient (FedSGD)."""
    learning_rate: float = 1.0
    """Of those local steps, and of those of a warm-up."""
    warmup_steps: int = 0
    """Steps of gradient descent that a client takes on earlier batches of its own before the batch
    under attack; the attacker knows the weights from before them."""
    momentum: float = 0.0
    """Of the steps of a warm-up."""
    public_corpus: str | None = None
    """Where the public text comes from; None: the public part of the corpus itself."""
    private_tokens: int = 0
    """Private sentences hold at least so many words with a digit."""
    federation: Federation | None = None
    """Federated tasks: how the private split is spread over clients that train together."""
    observed_round: Literal["first", "middle", "last"] = "first"
    """Federated tasks: the round in which a client's update is attacked."""
    utility: tuple[str, ...] = ()
    """Names of the utility metrics that cost a defense on this task."""
    training: Training | None = None
    """How that cost is measured; None where it is not."""
    papers: tuple[str, ...] = ()

    @property
    def clients(self) -> int | None:
        """Federated tasks: clients that the private split is spread over."""
        return self.federation.clients if self.federation else None

    @property
    def dirichlet_alpha(self) -> float | None:
        """Federated tasks: concentration of the label distribution of a client."""
        return self.federation.alpha if self.federation else None


@dataclass(frozen=True)
class Pairing:
    """One line of a suite's default plan: globs over the short names of each kind."""

    task: str = "*"
    attack: str = "*"
    defense: str = NO_DEFENSE


@dataclass(frozen=True)
class Topic:
    """A question that a suite's results answer: one table of its report."""

    title: str
    metrics: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]
    """Short names of task and attack, without a defense."""
    remark: str = ""
    """What a reader has to know, such as settings that are not the paper's."""


@dataclass(frozen=True)
class Suite:
    """A named set of tasks with the plan that `leakboard run --suite` follows by default."""

    name: str
    summary: str
    tasks: tuple[Task, ...]
    plan: tuple[Pairing, ...] = (Pairing(),)
    utility: tuple[Pairing, ...] = ()
    """What `leakboard run --utility` trains by default; the attack of a line is not read."""
    panels: Mapping[ObjectiveName, tuple[str, ...]] = field(default_factory=dict)
    """By objective, the attacks that every defense has to face: names of attacks or variants. The
    worst case of a defense that one of them was not run on is not known, and so cannot lead."""
    topics: tuple[Topic, ...] = ()
    """What `leakboard report --suite` has a table for."""
    footprints: Mapping[str, Footprint] = field(default_factory=dict)
    """By model reference, where a plan has to be told before weights are downloaded."""


# ------------------------------------------------------------------------- the defender's side


@dataclass(frozen=True)
class PrivateBatch:
    """One client's batch, as tensors and as the text behind them."""

    batch: Batch
    truth: Truth
    labels: tuple[int, ...] | None
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class TrainingData:
    """What a defense trains on, and what its model is tested with."""

    train: Batch
    validation: Batch
    test: Batch
    references: tuple[str, ...]
    """The test texts as a reader knows them."""


@dataclass(frozen=True)
class FederatedData:
    """What the clients of a federated task train on, and what their models are tested with."""

    clients: tuple[Batch, ...]
    """Training rows of each client."""
    validation: Batch
    test: Batch
    """The test rows of all clients together."""
    local_tests: tuple[tuple[int, ...], ...]
    """Numbers of the test rows that follow each client's own distribution of labels."""


@dataclass(frozen=True)
class ModelForm:
    """What can be said of a model without its numbers: the parameters that a client trains."""

    shapes: Mapping[str, tuple[int, ...]]
    """By parameter name, in the model's own order."""
    roles: Roles


class LoadedTask(ABC):
    """A task with its corpus, tokenizer and weights: what the harness asks `tasks` for.

    Only the harness's own process holds one, since it knows the private text.
    """

    task: Task
    corpus_digest: str
    """Over what the corpus is read or generated from."""

    @property
    @abstractmethod
    def model_directory(self) -> Path:
        """Folder of the public weights, prepared where the task wants a fresh head."""

    @property
    @abstractmethod
    def prior_directory(self) -> Path | None:
        """Folder of the language model that an attacker may consult, if it is another one."""

    @property
    @abstractmethod
    def prior_shares_ids(self) -> bool:
        """Whether the prior speaks the task's own vocabulary."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Over the definition, weights, corpus and prior: what a result depends on."""

    @property
    @abstractmethod
    def settings_digest(self) -> str:
        """Over the settings and weights that turn a batch into an update."""

    @property
    @abstractmethod
    def training_digest(self) -> str:
        """Over everything that the cost of a defense depends on, beside the defense."""

    @property
    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The task's own tokenizer."""

    @property
    @abstractmethod
    def form(self) -> ModelForm:
        """Names, shapes and roles of the model's parameters."""

    @property
    @abstractmethod
    def special_ids(self) -> frozenset[int]:
        """Ids that no metric counts."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens, as metrics and readers see it."""

    @abstractmethod
    def all_in_vocabulary(self, sentences: Sequence[Sequence[int]]) -> bool:
        """Whether every id names a token."""

    @abstractmethod
    def private_batch(self, index: int, seed: int) -> PrivateBatch:
        """The batch behind snapshot `index`."""

    @abstractmethod
    def private_rows_digest(self) -> str:
        """Over the whole private split: what only those can compute who hold the corpus."""

    @abstractmethod
    def warmup_batches(self, index: int, seed: int) -> list[Batch]:
        """The batches that a client trains on before that of snapshot `index`."""

    @abstractmethod
    def public_text(self) -> list[str]:
        """Hold-out sentences, disjoint from the private ones where the corpus is the same."""

    @abstractmethod
    def public_sources(self) -> list[str]:
        """What those sentences translate, where they translate something."""

    @property
    @abstractmethod
    def training_data(self) -> TrainingData:
        """What a defense trains on, and what its model is tested with."""

    @abstractmethod
    def federated_data(self, seed: int) -> FederatedData:
        """What clients train on, and what their models are tested with; federated tasks only."""
