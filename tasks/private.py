"""The defender's half of a task: the private batches behind the snapshots, and hold-out text.

Digests come without torch: a plan asks for nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.errors import UserError
from benchmark.spec import Batch, TrueSentence, Truth
from benchmark.suites import (
    FederatedData,
    LoadedTask,
    ModelForm,
    PrivateBatch,
    Task,
    TrainingData,
)
from tasks import corpora
from tasks.corpora.base import Row
from tasks.models.form import model_form
from tasks.models.materialize import locate, materialize, model_digest
from tasks.training_data import federated_rows, training_rows, training_settings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

ANY_LENGTH = 1 << 16
PUBLIC_ROWS = 2000
"""Hold-out sentences that an attacker is given at most."""


class PreparedTask(LoadedTask):
    """A task with its corpus, tokenizer and prepared weights."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.corpus_digest = corpora.digest(task.corpus)  # first, since it costs least to miss
        self._model_directory = materialize(task)
        named = None if task.prior in (None, "self") else task.prior
        self._prior_directory = locate(named) if named else None
        self._batches: dict[int, list[list[Row]]] = {}
        self._federated: dict[int, FederatedData] = {}

    @property
    def model_directory(self) -> Path:
        """Folder of the public weights, prepared where the task wants a fresh head."""
        return self._model_directory

    @property
    def prior_directory(self) -> Path | None:
        """Folder of the language model that an attacker may consult, if it is another one."""
        return self._prior_directory

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The task's own tokenizer."""
        from tasks.models.tokenizers import open_tokenizer

        return open_tokenizer(self.model_directory)

    @cached_property
    def form(self) -> ModelForm:
        """Names, shapes and roles of the model's parameters."""
        return model_form(self.model_directory, self.task.objective)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that no metric counts."""
        return frozenset(self.tokenizer.all_special_ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens, as metrics and readers see it."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).strip()

    def all_in_vocabulary(self, sentences: Sequence[Sequence[int]]) -> bool:
        """Whether every id names a token."""
        size = len(self.tokenizer)
        return all(0 <= i < size for ids in sentences for i in ids)

    @property
    def prior_shares_ids(self) -> bool:
        """Whether the prior speaks the task's own vocabulary."""
        if self.prior_directory is None:
            return False
        mine, its = (d / "tokenizer.json" for d in (self.model_directory, self.prior_directory))
        return mine.is_file() and mine.read_bytes() == its.read_bytes()

    @cached_property
    def settings_digest(self) -> str:
        """Over the settings and weights that turn a batch into an update."""
        task = self.task
        settings: list[object] = [task.objective, task.mode, task.precision, task.version]
        settings += [task.local_steps, task.learning_rate] if task.local_steps > 1 else []
        settings += [definition(task), self.corpus_digest] if task.warmup_steps else []
        if task.federation is not None:
            settings += [vars(task.federation), task.observed_round, self.corpus_digest]
        return _digest([*settings, model_digest(self.model_directory)])

    @cached_property
    def digest(self) -> str:
        """Over the definition, the weights, the corpus and the prior: what a result depends on."""
        parts = [definition(self.task), self.settings_digest, self.corpus_digest]
        parts += [corpora.digest(self.task.public_corpus)] if self.task.public_corpus else []
        return _digest([*parts, model_digest(self.prior_directory) if self.prior_directory else ""])

    def private_rows_digest(self) -> str:
        """Over the whole private split: what only those can compute who hold the corpus."""
        rows = corpora.load(self.task.corpus, "private")
        return _digest([[row.text, row.label, row.source] for row in rows])

    @cached_property
    def training_digest(self) -> str:
        """Over everything that the cost of a defense depends on, beside the defense."""
        parts = [
            training_settings(self.task),
            self.corpus_digest,
            model_digest(self.model_directory),
        ]
        return _digest(parts)

    @cached_property
    def training_data(self) -> TrainingData:
        """What a defense trains on, and what its model is tested with."""
        assert self.task.training is not None
        rows, limit = training_rows(self.task), self.task.training.max_tokens
        return TrainingData(
            train=self._encode(rows.train, limit),
            validation=self._encode(rows.validation, limit),
            test=self._encode(rows.test, limit),
            references=tuple(row.text for row in rows.test),
        )

    def federated_data(self, seed: int) -> FederatedData:
        """What clients train on, and what their models are tested with; federated tasks only."""
        if seed not in self._federated:
            self._federated[seed] = self._federated_data(seed)
        return self._federated[seed]

    def _federated_data(self, seed: int) -> FederatedData:
        rows = federated_rows(self.task, seed)
        limit = self.task.federation.max_tokens if self.task.federation else 0
        return FederatedData(
            clients=tuple(self._encode(own, limit) for own in rows.clients),
            validation=self._encode(rows.validation, limit),
            test=self._encode(rows.test, limit),
            local_tests=rows.local_tests,
        )

    def public_text(self) -> list[str]:
        """Hold-out sentences, disjoint from the private ones where the corpus is the same."""
        return [row.text for row in self._public_rows()]

    def public_sources(self) -> list[str]:
        """What those sentences translate, where they translate something."""
        return [row.source for row in self._public_rows() if row.source is not None]

    def _public_rows(self) -> Sequence[Row]:
        reference = self.task.public_corpus or self.task.corpus
        return corpora.load(reference, "public")[:PUBLIC_ROWS]

    def warmup_batches(self, index: int, seed: int) -> list[Batch]:
        """The batches that a client trains on before that of snapshot `index`: those before it."""
        self._rows(index, seed)
        every = self._batches[seed]
        earlier = range(index - self.task.warmup_steps, index)
        return [self._encode(every[i % len(every)], self.task.max_tokens) for i in earlier]

    def private_batch(self, index: int, seed: int) -> PrivateBatch:
        """The batch behind snapshot `index`."""
        rows = self._rows(index, seed)
        batch = self._encode(rows, self.task.max_tokens)
        ids = [self._plain(sentence) for sentence in self._read(batch).tolist()]
        return PrivateBatch(
            batch=batch,
            truth=Truth(self._sentences(rows, ids)),
            labels=_classes(rows) if self.task.objective == "classification" else None,
            lengths=tuple(int(n) for n in batch.attention_mask.sum(dim=1)),
        )

    def _encode(self, rows: Sequence[Row], max_tokens: int) -> Batch:
        from tasks.objectives import OBJECTIVES

        return OBJECTIVES[self.task.objective].encode(
            self.tokenizer,
            texts=[row.text for row in rows],
            labels=_classes(rows),
            sources=[row.source or "" for row in rows],
            max_tokens=max_tokens,
        )

    def _read(self, batch: Batch) -> Tensor:
        """The ids that an attack is after, -100 where there are none: the target, or the input."""
        if self.task.objective == "translation":
            return batch.labels
        return batch.input_ids.masked_fill(batch.attention_mask == 0, -100)

    def _rows(self, index: int, seed: int) -> list[Row]:
        from tasks.batches import PASSES, batches, shuffled

        if seed not in self._batches:
            made = self._batches[seed] = []
            private = corpora.load(self.task.corpus, "private")
            for turn in range(PASSES):
                if len(made) < self.task.snapshots:
                    rows = shuffled(private, self.task.corpus, seed, turn)
                    sizes = (self._read(self._encode(rows, ANY_LENGTH)) >= 0).sum(dim=1).tolist()
                    made += batches(self.task, rows, sizes)
        if index >= len(self._batches[seed]):
            raise UserError(
                f"{self.task.name} has only {len(self._batches[seed])} private batches in "
                f"{self.task.corpus}, not {index + 1}; choose a variant with a smaller batch."
            )
        return self._batches[seed][index]

    def _plain(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Without padding marks and special tokens, which no metric counts."""
        return tuple(i for i in ids if i >= 0 and i not in self.special_ids)

    def _sentences(
        self, rows: Sequence[Row], ids: Sequence[tuple[int, ...]]
    ) -> tuple[TrueSentence, ...]:
        names = corpora.entities(self.task.corpus, rows)
        return tuple(
            TrueSentence(own, text := self.decode(own), row.label, self._kept(entities, text))
            for row, own, entities in zip(rows, ids, names, strict=True)
        )

    def _kept(self, entities: Sequence[str], text: str) -> tuple[str, ...]:
        """The names that are left in a sentence once it has been cut."""
        return tuple(e for e in entities if self.task.fit == "drop" or e in text)


def _classes(rows: Sequence[Row]) -> tuple[int, ...]:
    return tuple(row.label or 0 for row in rows)


def definition(task: Task) -> dict[str, str]:
    """The settings that differ from their defaults, without the words meant for readers."""
    words = {"summary", "checkpoint", "seen", "papers", "utility", "training", "federation"}
    values = {f.name: (getattr(task, f.name), f.default) for f in fields(task)}
    return {
        name: json.dumps(sorted(value) if isinstance(value, frozenset) else value)
        for name, (value, default) in values.items()
        if name not in words and value != default
    }


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def load(task: Task) -> LoadedTask:
    """The defender's side of a task."""
    return PreparedTask(task)
