"""Public language models that an attacker may consult to score and to write sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from benchmark.spec import Batch
from tasks.models.loading import open_model
from tasks.objectives import IGNORED, boundary_ids, model_inputs, pad, padding_id, token_losses

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from benchmark.spec import Prior

_LOGITS = 20_000_000
"""How many logits a chunk of sentences may have: bounds memory at about 80 MB in float32."""
_ROWS = 256
"""Sentences that are drawn at once."""


def open_prior(
    directory: Path,
    task_tokenizer: PreTrainedTokenizerBase,
    device: torch.device | str,
    shares_vocabulary: bool,
) -> Prior:
    """The language model of a folder as a prior over the task's token ids."""
    model, tokenizer = open_model(directory, "causal-lm", "float32", device)
    model.requires_grad_(False)
    if shares_vocabulary:
        return LanguagePrior(model, task_tokenizer)
    return TextPrior(LanguagePrior(model, tokenizer), task_tokenizer)


def self_prior(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Prior:
    """The observed language model as its own prior."""
    return LanguagePrior(model, tokenizer)


class LanguagePrior:
    """A language model over the task's own vocabulary.

    It was trained on `<start> sentence <end>`, so scoring and sampling start from the start token,
    and the end is scored with the sentence: a whole sentence beats a cut one.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.start, self.end = boundary_ids(tokenizer)
        self.end_id = self.end[0] if self.end else -1
        self.special = frozenset(tokenizer.all_special_ids)

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """Mean negative log-likelihood per token (the end counted), on the model's device, (N,).

        Special tokens in a sentence are dropped first; the prior puts its own.
        """
        longest = _positions(self.model)
        rows = [
            [*self.start, *(i for i in ids if i not in self.special), *self.end][:longest]
            for ids in sentences
        ]
        longest_first = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        scores = torch.zeros(len(rows), device=self.model.device)
        for chunk in self._chunks(longest_first, rows):
            scores[chunk] = self._score([rows[index] for index in chunk]).to(scores.dtype)
        return scores

    def sample(self, count: int, max_tokens: int, seed: int) -> list[list[int]]:
        """Sentences at temperature 1, never empty, cut at `max_tokens`, without special tokens."""
        return self.sample_many([(count, max_tokens, seed)])[0]

    def sample_many(self, draws: Sequence[tuple[int, int, int]]) -> list[list[list[int]]]:
        """The same for each count, length and seed; up to 256 rows share a forward pass."""
        samples: list[list[list[int]]] = [[] for _ in draws]
        generators = [torch.Generator().manual_seed(seed) for _, _, seed in draws]
        most = _positions(self.model) - 1
        while True:
            batch, numbers, left = list[_Rows](), list[int](), _ROWS
            for number, (count, longest, _) in enumerate(draws):
                size = min(_ROWS, count - len(samples[number]))
                if 0 < size <= left:
                    batch.append(_Rows(size, min(longest, most), generators[number]))
                    numbers.append(number)
                    left -= size
            if not batch:
                return samples
            for number, rows in zip(numbers, self._sample_batch(batch), strict=True):
                samples[number] += rows

    def _chunks(self, order: list[int], rows: list[list[int]]) -> list[list[int]]:
        """Split into chunks of similar length, each with a bounded number of logits."""
        chunks: list[list[int]] = []
        vocabulary = int(self.model.config.vocab_size)
        while order:
            size = max(1, _LOGITS // (len(rows[order[0]]) * vocabulary))
            chunks.append(order[:size])
            order = order[size:]
        return chunks

    def _score(self, rows: list[list[int]]) -> Tensor:
        input_ids, mask = pad(rows, padding_id(self.tokenizer))
        input_ids, mask = input_ids.to(self.model.device), mask.to(self.model.device)
        batch = Batch(input_ids, mask, input_ids.masked_fill(mask == 0, IGNORED))
        with torch.inference_mode():
            logits = self.model(**model_inputs(self.model, batch, None)).logits  # (B, T, V)
            return token_losses(logits[:, :-1], batch.labels[:, 1:])

    def _sample_batch(self, batch: Sequence[_Rows]) -> list[list[list[int]]]:
        """Draw token after token for all rows at once; a row that ended draws into the void."""
        sizes = [rows.size for rows in batch]
        limits = torch.tensor([rows.longest for rows in batch for _ in range(rows.size)])
        drawn = torch.zeros((len(limits), 0), dtype=torch.long)
        first = self.start[0] if self.start else padding_id(self.tokenizer)
        token, cache = torch.full((len(limits), 1), first), None
        ended = limits <= 0
        while not bool(ended.all()):
            with torch.inference_mode():
                output = self.model(
                    input_ids=token.to(self.model.device), past_key_values=cache, use_cache=True
                )
                cache = output.past_key_values
                chances = self._chances(output.logits[:, -1], first=drawn.shape[1] == 0)
            pairs = zip(chances.split_with_sizes(sizes), batch, strict=True)
            token = torch.cat([torch.multinomial(c, 1, generator=r.generator) for c, r in pairs])
            drawn = torch.cat([drawn, token], dim=1)  # (B, T)
            ended = ended | (token[:, 0] == self.end_id) | (limits <= drawn.shape[1])
        return [
            [_until(row[: rows.longest], self.end_id) for row in own.tolist()]
            for own, rows in zip(drawn.split_with_sizes(sizes), batch, strict=True)
        ]

    def _chances(self, logits: Tensor, first: bool) -> Tensor:
        """Probabilities without the special tokens; the end is allowed from the second token on."""
        banned = self.special if first else self.special - {self.end_id}
        index = torch.tensor(sorted(banned), dtype=torch.long, device=logits.device)
        return logits.double().index_fill(1, index, float("-inf")).softmax(dim=1).cpu()


class TextPrior:
    """A language model over another vocabulary, reached through text.

    A score is the negative log-likelihood of the whole text divided by the number of the task's
    tokens, so that candidates with the same tokens in another order are compared on one scale.
    """

    def __init__(self, inner: LanguagePrior, task_tokenizer: PreTrainedTokenizerBase) -> None:
        self.inner = inner
        self.tokenizer = task_tokenizer

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """Negative log-likelihood of each decoded sentence per task token, end counted, (N,)."""
        texts = [self.tokenizer.decode(list(ids), skip_special_tokens=True) for ids in sentences]
        foreign = [self.inner.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        special = set(self.tokenizer.all_special_ids)
        theirs = torch.tensor([len(ids) + 1.0 for ids in foreign])
        ours = torch.tensor([sum(i not in special for i in ids) + 1.0 for ids in sentences])
        mean = self.inner.negative_log_likelihood(foreign)
        return mean * (theirs / ours).to(mean)

    def sample(self, count: int, max_tokens: int, seed: int) -> list[list[int]]:
        """Texts of the foreign model in the task's token ids, cut at `max_tokens`."""
        return self.sample_many([(count, max_tokens, seed)])[0]

    def sample_many(self, draws: Sequence[tuple[int, int, int]]) -> list[list[list[int]]]:
        """The same for each count, length and seed."""
        foreign = self.inner.sample_many(draws)
        return [
            [self._translated(ids)[:longest] for ids in sentences]
            for sentences, (_, longest, _) in zip(foreign, draws, strict=True)
        ]

    def _translated(self, foreign: list[int]) -> list[int]:
        text = self.inner.tokenizer.decode(foreign, skip_special_tokens=True)
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


@dataclass(frozen=True)
class _Rows:
    """Sentences that are drawn with one generator."""

    size: int
    longest: int
    generator: torch.Generator


def _positions(model: PreTrainedModel) -> int:
    """How many tokens the model can read at once."""
    return int(getattr(model.config, "max_position_embeddings", None) or 1_000_000)


def _until(ids: list[int], end: int) -> list[int]:
    """Everything before the first end token."""
    return ids[: ids.index(end)] if end in ids else ids
