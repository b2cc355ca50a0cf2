"""Public language models that an attacker may consult to score and to write sentences."""

from __future__ import annotations

from collections.abc import Sequence
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
        generator = torch.Generator().manual_seed(seed)
        sentences: list[list[int]] = []
        while len(sentences) < count:
            size = min(256, count - len(sentences))
            sentences += self._sample_batch(size, max_tokens, generator)
        return sentences

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

    def _sample_batch(
        self, size: int, max_tokens: int, generator: torch.Generator
    ) -> list[list[int]]:
        """Draw token after token for all rows at once; a row that ended draws into the void."""
        limit = min(max_tokens, _positions(self.model) - 1)
        drawn = torch.zeros((size, 0), dtype=torch.long)
        first = self.start[0] if self.start else padding_id(self.tokenizer)
        token, cache = torch.full((size, 1), first), None
        ended = torch.zeros(size, dtype=torch.bool)
        while drawn.shape[1] < limit and not bool(ended.all()):
            with torch.inference_mode():
                output = self.model(
                    input_ids=token.to(self.model.device), past_key_values=cache, use_cache=True
                )
                cache = output.past_key_values
                chances = self._chances(output.logits[:, -1], first=drawn.shape[1] == 0)
                token = torch.multinomial(chances, 1, generator=generator)  # (B, 1)
            drawn = torch.cat([drawn, token], dim=1)
            ended = ended | (token[:, 0] == self.end_id)
        return [_until(row, self.end_id) for row in drawn.tolist()]

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
        foreign = self.inner.sample(count, max_tokens, seed)
        texts = [self.inner.tokenizer.decode(ids, skip_special_tokens=True) for ids in foreign]
        encoded = [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return [ids[:max_tokens] for ids in encoded]


def _positions(model: PreTrainedModel) -> int:
    """How many tokens the model can read at once."""
    return int(getattr(model.config, "max_position_embeddings", None) or 1_000_000)


def _until(ids: list[int], end: int) -> list[int]:
    """Everything before the first end token."""
    return ids[: ids.index(end)] if end in ids else ids
