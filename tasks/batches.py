"""How the private split becomes the batches of the snapshots.

The order of sentences depends on corpus and seed alone, so variants of a task that differ only in
batch size attack the same sentences.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchmark.spec import Task
from tasks.corpora.base import Row


def shuffled(rows: Sequence[Row], corpus: str, seed: int) -> list[Row]:
    """The private split in the order in which snapshots take it."""
    order = list(rows)
    random.Random(f"{corpus} {seed}").shuffle(order)
    return order


def batches(task: Task, rows: Sequence[Row], sizes: Sequence[int], seed: int) -> list[list[Row]]:
    """All batches that a task can draw; `sizes` are the rows' token counts."""
    fitting = [
        (row, size)
        for row, size in zip(rows, sizes, strict=True)
        if task.min_tokens <= size <= task.max_tokens
    ]
    kept = [row for row, _ in fitting]
    if task.clients and task.dirichlet_alpha:
        labels = [row.label or 0 for row in kept]
        shares = spread(labels, task.clients, task.dirichlet_alpha, f"{task.corpus} {seed}")
        batch = task.batch_size
        return [[kept[i] for i in share[:batch]] for share in shares if len(share) >= batch]
    if task.batch_tokens:
        return _filled(fitting, task.batch_tokens)
    whole = len(kept) // task.batch_size * task.batch_size
    return [kept[i : i + task.batch_size] for i in range(0, whole, task.batch_size)]


def _filled(fitting: Sequence[tuple[Row, int]], limit: int) -> list[list[Row]]:
    """Consecutive rows, as many to a batch as `limit` tokens hold."""
    found: list[list[Row]] = [[]]
    tokens = 0
    for row, size in fitting:
        if tokens + size > limit:
            found.append([])
            tokens = 0
        found[-1].append(row)
        tokens += size
    return found[:-1]


def spread(labels: Sequence[int], clients: int, alpha: float, seed: str) -> list[list[int]]:
    """Row numbers of each client: every label is dealt out in Dirichlet(alpha) proportions."""
    entropy = np.frombuffer(seed.encode(), dtype=np.uint8).tolist()
    generator = np.random.Generator(np.random.PCG64(entropy))
    by_label: dict[int, list[int]] = defaultdict(list)
    for number, label in enumerate(labels):
        by_label[label].append(number)
    shares: list[list[int]] = [[] for _ in range(clients)]
    for label in sorted(by_label):
        numbers = by_label[label]
        cuts = generator.dirichlet([alpha] * clients).cumsum()[:-1] * len(numbers)
        for share, part in zip(shares, np.split(np.array(numbers), cuts.astype(int)), strict=True):
            share.extend(int(n) for n in part)
    for share in shares:
        share.sort()  # back into the shuffled order, so a client's first batch mixes its labels
    return shares
