"""How the rows of a federated task are spread over its clients: every label in Dirichlet shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.errors import UserError

FEWEST_ROWS = 4
"""Training rows that every client has at least; a draw that leaves one with fewer is redrawn."""
MOST_DRAWS = 1000


@dataclass(frozen=True)
class Partition:
    """Row numbers of each client, in the training and in the test split."""

    train: tuple[tuple[int, ...], ...]
    test: tuple[tuple[int, ...], ...]
    """In the client's own proportions of labels; a client may have none."""


def partition(
    labels: Sequence[int], test_labels: Sequence[int], clients: int, alpha: float, seed: str
) -> Partition:
    """Both splits in the same proportions: those of a client's test are those it trains on."""
    entropy = np.frombuffer(seed.encode(), dtype=np.uint8).tolist()
    generator = np.random.Generator(np.random.PCG64(entropy))
    kinds = sorted(set(labels) | set(test_labels))
    for _ in range(MOST_DRAWS):
        proportions = {kind: generator.dirichlet([alpha] * clients) for kind in kinds}
        train = deal(labels, proportions, clients)
        if min(map(len, train)) >= FEWEST_ROWS:
            return Partition(train, deal(test_labels, proportions, clients))
    raise UserError(
        f"{len(labels)} rows cannot be spread over {clients} clients so that each has "
        f"{FEWEST_ROWS}; take fewer clients or a larger alpha."
    )


def deal(
    labels: Sequence[int], proportions: dict[int, np.ndarray], clients: int
) -> tuple[tuple[int, ...], ...]:
    """Row numbers of each client, in their own order, so that a client's rows mix its labels."""
    by_label: dict[int, list[int]] = defaultdict(list)
    for number, label in enumerate(labels):
        by_label[label].append(number)
    shares: list[list[int]] = [[] for _ in range(clients)]
    for label, numbers in sorted(by_label.items()):
        cuts = (proportions[label].cumsum()[:-1] * len(numbers)).round().astype(int)
        for share, part in zip(shares, np.split(np.array(numbers), cuts), strict=True):
            share.extend(int(number) for number in part)
    return tuple(tuple(sorted(share)) for share in shares)
