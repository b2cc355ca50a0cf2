"""The server of a federated training: who takes part in a round, and what becomes of the updates.

Everything here depends on seeds and on the clients' own order alone, never on who was faster.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from benchmark.execution.seeds import derive_seed
from benchmark.suites import Federation

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def sampled_clients(federation: Federation, seed: int, number: int) -> list[int]:
    """The clients that the server asks in a round, in order."""
    draw = random.Random(derive_seed("sampled clients", seed, number))
    return sorted(draw.sample(range(federation.clients), federation.sampled))


def drops_out(federation: Federation, seed: int, number: int, client: int) -> bool:
    """Whether a client that was asked never answers."""
    draw = random.Random(derive_seed("dropout", seed, number, client))
    return draw.random() < federation.dropout_rate


def client_round_seed(seed: int, number: int | str, client: int) -> int:
    """Seed of everything that one client draws in one round."""
    return derive_seed("client round", seed, number, client)


def aggregate(
    weights: Mapping[str, Array], updates: Sequence[tuple[int, Mapping[str, Array]]]
) -> dict[str, Array]:
    """The weights moved by the mean of the updates, each given with its number of rows.

    Summed in the order given and in double precision.
    """
    import numpy as np

    rows = sum(count for count, _ in updates)
    moved = dict(weights)
    for name in updates[0][1] if updates else ():
        total = np.zeros(weights[name].shape, dtype=np.float64)
        for count, update in updates:
            total += (count / rows) * update[name].astype(np.float64)
        moved[name] = (weights[name].astype(np.float64) + total).astype(weights[name].dtype)
    return moved


def in_groups(items: Sequence[int], groups: int) -> list[list[int]]:
    """The items in order, in as many groups of almost equal size."""
    size = -(-len(items) // max(1, min(groups, len(items))))
    return [list(items[first : first + size]) for first in range(0, len(items), size)]


def rounds_before(federation: Federation, observed: Literal["first", "middle", "last"]) -> int:
    """Complete rounds before the one in which a client's update is attacked."""
    return {"first": 0, "middle": federation.rounds // 2, "last": federation.rounds - 1}[observed]
