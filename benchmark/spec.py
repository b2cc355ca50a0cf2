"""The whole contract between submissions and the harness.

A task (`suites.py`) fixes model, corpus and what an attacker may know. A *defense* turns a private
batch into the update that is sent. An *attack* answers an :class:`Observation` of it with a
:class:`Recovery`. :class:`Truth`, the private text, never enters its process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

if TYPE_CHECKING:  # torch takes seconds to import, and `leakboard --help` must not
    import torch
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Scalar = str | int | float | bool


class Knowledge(StrEnum):
    """What a task may grant the attacker on top of model, update and batch size."""

    LABELS = "labels"
    LENGTHS = "lengths"
    NOISE_SCALE = "noise-scale"
    FREQUENCIES = "frequencies"
    PUBLIC_TEXT = "public-text"
    PRIOR = "prior"
    TYPE_COUNT = "type-count"
    PUBLIC_TABLE = "public-table"


class Role(StrEnum):
    """A place in the model that attacks read by meaning, whatever its parameter is called."""

    WORD_EMBEDDING = "word-embedding"
    POSITION_EMBEDDING = "position-embedding"
    OUTPUT = "output"


class Unsupported(Exception):
    """Raised by a submission for what it cannot do by its nature; the message is the reason."""


@dataclass(frozen=True)
class Batch:
    """Model inputs as tensors. For translation, `input_ids` is the source, `labels` the target."""

    input_ids: Tensor  # (B, T)
    attention_mask: Tensor  # (B, T)
    labels: Tensor  # (B,) classes, or (B, T) token ids with -100 where nothing is predicted

    def split(self, parts: int) -> list[Batch]:
        """Equal parts, in order."""
        columns = (tensor.chunk(parts) for tensor in vars(self).values())
        return [Batch(*tensors) for tensors in zip(*columns, strict=True)]


class Objective(ABC):
    """What the clients train for: how a batch becomes a loss, the mean of its samples' losses.

    A sample's is the mean over its predicted tokens, so clipping each speaks of the same loss.
    """

    name: ClassVar[str]

    @abstractmethod
    def encode(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        labels: Sequence[int] | None,
        sources: Sequence[str] | None,
        max_tokens: int,
    ) -> Batch:
        """Texts as one right-padded batch on the CPU, cut at `max_tokens`, specials counted."""

    @abstractmethod
    def losses(
        self, model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """Loss of each sample, (B,). `inputs_embeds` (B, T, D) replaces the token embeddings."""

    def loss(
        self, model: torch.nn.Module, batch: Batch, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """The scalar whose gradient a client shares."""
        return self.losses(model, batch, inputs_embeds).mean()


@dataclass(frozen=True)
class Update:
    """What leaves the client in one round, by parameter name."""

    tensors: Mapping[str, Tensor]
    kind: Literal["gradient", "difference"] = "gradient"
    """`gradient` of the batch loss, or the weight `difference` after several local steps."""
    local_steps: int = 1
    learning_rate: float = 1.0
    """Of the `local_steps` of gradient descent behind a `difference`."""
    noise_scale: float | None = None
    """Standard deviation of noise that the defense added to each entry, if it added any."""
    epsilon: float | None = None
    """Privacy that the defense accounts for, if it does."""

    @property
    def bytes_up(self) -> int:
        """Bytes on the wire: sparse tensors are sent as indices and values where that is less."""
        return sum(
            min(t.numel() * t.element_size(), int(t.count_nonzero()) * (t.element_size() + 4))
            for t in self.tensors.values()
        )


# ---------------------------------------------------------------------------- the attacker's side


class Prior(Protocol):
    """A public language model that scores and writes sentences in the task's own token ids."""

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """Mean negative log-likelihood per token of each sentence, (N,)."""

    def sample(self, count: int, max_tokens: int, seed: int) -> list[list[int]]:
        """Sentences drawn from the model, as ids of the task's tokenizer, no special tokens."""

    def sample_many(self, draws: Sequence[tuple[int, int, int]]) -> list[list[list[int]]]:
        """What `sample` gives for each count, length and seed, drawn together."""


@dataclass(frozen=True)
class Roles:
    """Parameter names by role; a role that the model does not have is absent from `names`."""

    names: Mapping[Role, str]
    tied: bool
    """Word embedding and output are one matrix, so its gradient mixes both."""


@dataclass(frozen=True)
class Public:
    """What everyone in the federation knows before any update: the argument of `prepare`."""

    task: str
    objective: Objective
    model: torch.nn.Module
    """The public weights, in eval mode, on `device`."""
    tokenizer: PreTrainedTokenizerBase
    roles: Roles
    batch_size: int
    batch_tokens: int | None
    """Samples to a batch, or the target tokens that fill one where the task fixes those instead."""
    max_tokens: int
    grants: frozenset[Knowledge]
    """What this attack is handed: of what it declares (`Attack.needs`, `uses`), what is granted."""
    text: tuple[str, ...]
    """Public hold-out sentences; empty unless `Knowledge.PUBLIC_TEXT` is handed over."""
    prior: Prior | None
    """None unless `Knowledge.PRIOR` is handed over."""
    device: torch.device
    seed: int
    sources: tuple[str, ...] = ()
    """Translation: the source sentence of each of `text`."""
    table: Tensor | None = None
    """Published word vectors, (V, D), whatever table clients use; where `Knowledge.PUBLIC_TABLE` is
    granted."""

    @cached_property
    def forbidden_ids(self) -> frozenset[int]:
        """Special and unused vocabulary entries, which no private text contains."""
        vocabulary = self.tokenizer.get_vocab()
        unused = {i for token, i in vocabulary.items() if token.startswith("[unused")}
        return frozenset(unused | set(self.tokenizer.all_special_ids))


@dataclass(frozen=True)
class Observation:
    """One shared update of `batch_size` samples, and all the attacker may use to read it."""

    public: Public
    update: Update
    """`noise_scale` is None unless `Knowledge.NOISE_SCALE` is handed over."""
    batch_size: int
    seed: int
    """Source of all randomness of this recovery."""
    labels: tuple[int, ...] | None = None
    lengths: tuple[int, ...] | None = None
    """Class of each sample, and its tokens with special tokens; None unless handed over."""
    frequencies: Mapping[int, int] | None = None
    type_count: int | None = None
    """How often each token id occurs in the batch, and how many do; None unless handed over."""
    report: Callable[[int, int, float], None] = lambda step, steps, loss: None
    """Tells the harness how far a recovery is: step, steps in all, current loss."""
    seconds_left: Callable[[], float] = lambda: float("inf")
    """Time until the harness ends the cell; a long search returns its best state before that."""

    def gradient(self, role: Role) -> Tensor | None:
        """The observed tensor of a role, or None where the model lacks it or it is not shared."""
        return self.update.tensors.get(self.public.roles.names.get(role, ""))


@dataclass(frozen=True)
class Recovery:
    """An attack's answer: ranked sentences, a set of token types, or both."""

    sentences: Sequence[Sequence[int]] = ()
    """Token ids, best guess first; the first `batch_size` of them answer for the batch."""
    token_types: frozenset[int] | None = None
    """Ids that occur in the batch, without order; taken from the sentences where not given."""
    note: str = ""
    """One sentence for the record, for instance that a budget ended the search."""
    stopped_by_clock: bool = False
    """`seconds_left` ran short, a faster machine might find more; counted work is not that."""


# --------------------------------------------------------------------------- the defender's side


@dataclass(frozen=True)
class TrueSentence:
    """One private sentence, without special tokens."""

    token_ids: tuple[int, ...]
    text: str
    label: int | None = None
    entities: tuple[str, ...] = ()
    """Surface forms of the named entities, where the corpus or a tagger knows them."""


@dataclass(frozen=True)
class Truth:
    """The private batch behind one snapshot. Only the scorer reads it."""

    sentences: tuple[TrueSentence, ...]

    @property
    def token_types(self) -> frozenset[int]:
        """Distinct token ids of the whole batch."""
        return frozenset(i for sentence in self.sentences for i in sentence.token_ids)

    @property
    def frequencies(self) -> dict[int, int]:
        """How often each token id occurs in the whole batch."""
        return dict(Counter(i for sentence in self.sentences for i in sentence.token_ids))


@dataclass(frozen=True)
class Budget:
    """What a defense accounts for privacy by: updates in all, share of the data in each, and δ."""

    rounds: int
    sampling_rate: float
    delta: float


@dataclass
class Client:
    """A participant: the current model, the objective, and whatever a defense keeps locally."""

    model: torch.nn.Module
    objective: Objective
    roles: Roles
    generator: torch.Generator
    """Source of the defense's randomness."""
    local_steps: int = 1
    learning_rate: float = 1.0
    budget: Budget | None = None
    """None where the task does not declare how it trains."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """What a defense keeps with the client between rounds, beside the parameters it `keeps`."""
    received: Mapping[str, Tensor] = field(default_factory=dict)
    """Federated tasks: the shared parameters as the server sent them in this round."""
    private_ids: frozenset[int] = frozenset()
    """Federated tasks: ids of the tokens that clients hold private, those with a digit."""
    train: Callable[[Batch, Sequence[str], int], None] = lambda rows, names, epochs: None
    """Federated tasks: trains the named parameters in place on these rows for so many epochs, as
    the task declares, each step by the gradient of the defense's `local_update`."""

    def update(
        self,
        batch: Batch,
        names: Sequence[str],
        gradient: Callable[[Batch, Sequence[str]], Mapping[str, Tensor]] | None = None,
    ) -> Update:
        """What an undefended client sends of the named parameters: a gradient, or a difference.

        A `gradient` of the caller's own replaces the plain one in every local step. The difference
        is added up step by step, which keeps digits that the difference of rounded weights loses.
        """
        import torch

        gradient = gradient or self.gradient
        if self.local_steps == 1:
            return Update(gradient(batch, names))
        parameters = dict(self.model.named_parameters())
        before = {name: parameters[name].detach().clone() for name in names}
        shift = {name: torch.zeros_like(value) for name, value in before.items()}
        for part in batch.split(self.local_steps):
            for name, value in gradient(part, names).items():
                shift[name] -= self.learning_rate * value
                parameters[name].data = before[name] + shift[name]
        for name, value in before.items():
            parameters[name].data = value
        return Update(shift, "difference", self.local_steps, self.learning_rate)

    def gradient(self, batch: Batch, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Gradient of the batch loss by parameter name, for all parameters or the named ones."""
        import torch

        parameters = dict(self.model.named_parameters())
        selected = {n: parameters[n] for n in (parameters if names is None else names)}
        loss = self.objective.loss(self.model, batch)
        values = torch.autograd.grad(loss, list(selected.values()), allow_unused=True)
        return {
            n: torch.zeros_like(p) if g is None else g.detach()
            for (n, p), g in zip(selected.items(), values, strict=True)
        }


# -------------------------------------------------------------------------------------- plug-ins


@dataclass(frozen=True)
class Parameter:
    """One setting of a submission, with its default and the range that is accepted."""

    default: Scalar
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Scalar, ...] = ()
    needs: frozenset[Knowledge] = frozenset()
    uses: frozenset[Knowledge] = frozenset()
    """Knowledge that any value but `without` takes, beside `Attack.needs` and `Attack.uses`."""
    without: Scalar | None = None
    """The value that takes none; None: the default."""
    grid: tuple[Scalar, ...] = ()
    """Values that papers try."""


class Submission(ABC):
    """What attacks and defenses have in common: metadata as class attributes."""

    name: ClassVar[str]
    """Unique; what the command line and the leaderboard call it."""
    summary: ClassVar[str]
    """One sentence."""
    paper: ClassVar[str] = ""
    """Where the method comes from: authors, title, year."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, Scalar]]] = {}
    """Settings worth a name of their own, such as `<name>_<what is left out>`, by that name."""
    allow_tf32: ClassVar[bool] = False
    """Ask for TF32 matrix products on GPUs that have them; the record says so."""

    def __init__(self, **parameters: Scalar) -> None:
        """Values by name; the harness has checked them against `parameters`."""
        self.settings = {name: p.default for name, p in self.parameters.items()} | parameters


class Attack(Submission):
    """Reads private text out of an observed update. Deterministic for a given seed."""

    observes: ClassVar[frozenset[Role]] = frozenset()
    """Roles whose gradient must have been shared; empty: takes whatever there is."""
    needs: ClassVar[frozenset[Knowledge]] = frozenset()
    """Knowledge without which the attack cannot run."""
    uses: ClassVar[frozenset[Knowledge]] = frozenset()
    """Knowledge that it uses where granted; what it neither needs nor uses, it is not handed."""
    objectives: ClassVar[frozenset[str]] = frozenset({"causal-lm", "classification", "translation"})
    """Objectives the attack is defined for."""
    baseline: ClassVar[bool] = False
    """It guesses without reading the update: what it scores is no leak, and others must beat it."""

    def prepare(self, public: Public) -> None:
        """Fit what can be fitted before any update is seen; timed apart from `recover`."""

    @abstractmethod
    def recover(self, observation: Observation) -> Recovery:
        """Read one update. This call is what the leaderboard times."""

    def recover_many(self, observations: Sequence[Observation]) -> Sequence[Recovery]:
        """Read several updates of one task; for where doing so jointly is faster, not different."""
        return [self.recover(observation) for observation in observations]


class Defense(Submission):
    """Turns a private batch into the update that leaves the client.

    The same call makes the gradient under attack and trains the model when utility is measured.
    Defenses are combined by name, `first+second`: what both share is computed by the one that
    overrides `local_update`, if any, and then transformed by each in turn.

    A client of a federated task trains what it shares and what it keeps, and sends by how much the
    shared parameters moved. What is neither shared nor kept stays as it was.
    """

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Whether this parameter's tensor leaves the client at all."""
        return True

    def client_update(self, client: Client, batch: Batch) -> Update:
        """The shared update: by default the plain gradient of the shared parameters."""
        names = [n for n, _ in client.model.named_parameters() if self.shares(n, client.roles)]
        return self.transform(self.local_update(client, batch, names), client.generator)

    def local_update(self, client: Client, batch: Batch, names: Sequence[str]) -> Update:
        """What the client computes of the shared parameters, before anything is changed."""
        return client.update(batch, names)

    def transform(self, update: Update, generator: torch.Generator) -> Update:
        """Change the update before it is sent; what simple defenses override."""
        return update

    def keeps(self, parameter: str, roles: Roles) -> bool:
        """Federated tasks: whether a client trains this parameter and keeps it to itself."""
        return False

    def adapt(self, client: Client, rows: Batch) -> Batch:
        """Federated tasks: what a client does with the parameters it has received before it trains
        or is tested; returns the rows to train on. What is changed here is not sent."""
        return rows
