"""The observed language model as FILM uses it: it continues beams and judges whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from benchmark.spec import Batch, Public
from submissions.blocks.sentences import special_tokens

_LOGITS = 8_000_000
"""Logits of a chunk of sentences: bounds memory, and more would not be faster on a processor."""
IGNORED = -100


class Continuations(Protocol):
    """What beam search asks of a language model."""

    def step(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the beams `parents` (K,), put `tokens` (K,) behind them, and look ahead.

        Returns log-probabilities of each word of the bag (K, M) and of the end (K,).
        """


class CachedContinuations:
    """Continues beams with a key-value cache that follows them instead of being computed anew.

    The normalizer of the softmax runs over the whole vocabulary, so the log-probabilities are
    exact, but they are taken of the bag alone.
    """

    def __init__(self, model: torch.nn.Module, words: Tensor, end: int | None) -> None:
        self.model, self.words, self.end = model, words, end
        self.cache = DynamicCache()

    @torch.inference_mode()
    def step(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """One token of every beam through the model."""
        if self.cache.get_seq_length():
            self.cache.reorder_cache(parents)  # type: ignore[arg-type]  # any tensor of whole numbers
        output = self.model(input_ids=tokens[:, None], past_key_values=self.cache, use_cache=True)
        logits = output.logits[:, -1]  # (K, V)
        normalizer = logits.logsumexp(dim=1, keepdim=True)
        selected = logits[:, self.words] - normalizer  # (K, M)
        if self.end is None:
            return selected, torch.zeros_like(normalizer[:, 0])
        return selected, logits[:, self.end] - normalizer[:, 0]


class Language:
    """Encodes sentences as the task does and measures them with the observed model."""

    def __init__(self, public: Public) -> None:
        self.public = public
        self.start, self.end = special_tokens(public)
        if not self.start:
            raise ValueError("the tokenizer has no start token, so beam search has no beginning")

    @property
    def space(self) -> int:
        """Words that fit into a sentence beside its special tokens."""
        return self.public.max_tokens - len(self.start) - len(self.end)

    def continuations(self, words: Tensor) -> Continuations:
        """A fresh cache over the words of a bag."""
        return CachedContinuations(self.public.model, words, self.end[0] if self.end else None)

    def encode(self, sentences: Sequence[Sequence[int]]) -> Batch:
        """Sentences between their special tokens, padded on the right."""
        rows = [[*self.start, *sentence, *self.end] for sentence in sentences]
        width = max(len(row) for row in rows)
        padding = (self.end or self.start)[-1]
        ids = torch.tensor([row + [padding] * (width - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(width) < lengths[:, None]).long()
        labels = ids.masked_fill(mask == 0, IGNORED)
        device = self.public.device
        return Batch(ids.to(device), mask.to(device), labels.to(device))

    def chunks(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Numbers of sentences that go through the model together, of similar length."""
        vocabulary = len(self.public.tokenizer)
        order = sorted(range(len(sentences)), key=lambda n: len(sentences[n]))
        parts = []
        while order:
            width = len(sentences[order[-1]]) + 2
            size = max(1, _LOGITS // (width * vocabulary))
            parts.append(order[-size:])
            order = order[:-size]
        return parts

    @torch.inference_mode()
    def perplexities(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """exp of each sentence's loss, the end counted, (N,)."""
        found = torch.empty(len(sentences), device=self.public.device)
        for part in self.chunks(sentences):
            batch = self.encode([sentences[n] for n in part])
            losses = self.public.objective.losses(self.public.model, batch)
            found[part] = losses.exp().to(found)
        return found

    @torch.inference_mode()
    def surprises(self, sentence: Sequence[int]) -> Tensor:
        """Negative log-likelihood of each token after those before it, the end left out, (n,)."""
        ids = self.encode([sentence]).input_ids
        logits = self.public.model(input_ids=ids).logits[0]  # (T, V)
        losses = functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
        skipped = len(self.start) - 1
        return losses[skipped : skipped + len(sentence)]
