"""Masked language modeling with BERT's 80/10/10 rule, and spliced sentences for the pooler."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from benchmark.spec import Batch
from tasks.objectives import IGNORED

MASK_ID = 4
FIRST_WORD_ID = 5
"""Ids below this are special in the BERT vocabulary."""
SELECTED = 0.15


def masked(batch: Batch, vocabulary: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Input ids with 15 % of the words hidden, and labels that ask for them. Both (B, T)."""
    ids = batch.input_ids
    chance = torch.rand(ids.shape, generator=generator)
    selected = (ids >= FIRST_WORD_ID) & (chance < SELECTED)
    labels = ids.masked_fill(~selected, IGNORED)
    replaced = torch.randint(FIRST_WORD_ID, vocabulary, ids.shape, generator=generator)
    hidden = ids.masked_fill(selected & (chance < 0.8 * SELECTED), MASK_ID)
    return torch.where(selected & (chance >= 0.9 * SELECTED), replaced, hidden), labels


def spliced(texts: Sequence[str], share: float, seed: int) -> tuple[list[str], list[int]]:
    """The texts, some with the second half of another; 1 marks those.

    Stands in for BERT's next-sentence task: the corpora are single sentences, and the pooler must
    learn from something.
    """
    chooser = random.Random(seed)
    made, labels = list(texts), [0] * len(texts)
    for _ in range(int(share * len(texts))):
        one, other = chooser.choice(texts).split(), chooser.choice(texts).split()
        made.append(" ".join(one[: len(one) // 2] + other[len(other) // 2 :]))
        labels.append(1)
    return made, labels
