"""The discrete transformations of LAMP (section 4.3), as orders of the tokens of one sentence."""

from __future__ import annotations

from itertools import cycle

import torch

Order = tuple[int, ...]


def swap(order: Order, i: int, j: int, p: int) -> Order:
    """Exchange the tokens at i and j."""
    changed = list(order)
    changed[i], changed[j] = changed[j], changed[i]
    return tuple(changed)


def move_token(order: Order, i: int, j: int, p: int) -> Order:
    """Take the token at i out and put it in at j."""
    rest = order[:i] + order[i + 1 :]
    return rest[:j] + order[i : i + 1] + rest[j:]


def move_span(order: Order, i: int, j: int, p: int) -> Order:
    """Take everything between i and j out and put it in at p of the rest."""
    first, last = min(i, j), max(i, j)
    rest = order[:first] + order[last + 1 :]
    place = p % (len(rest) + 1)
    return rest[:place] + order[first : last + 1] + rest[place:]


def move_prefix(order: Order, i: int, j: int, p: int) -> Order:
    """Put everything up to i at the end."""
    return order[i + 1 :] + order[: i + 1]


OPERATORS = (swap, move_token, move_span, move_prefix)


def rearrangements(tokens: int, count: int, generator: torch.Generator) -> list[Order]:
    """The identity, then `count` - 1 transformations of it in turn, each order once.

    An order that is drawn twice scores the same twice, so leaving it out changes nothing.
    """
    identity = tuple(range(tokens))
    if tokens < 2 or count < 2:
        return [identity]
    draws = torch.randint(tokens, (count - 1, 3), generator=generator).tolist()
    operators = cycle(OPERATORS)
    orders = [next(operators)(identity, *draw) for draw in draws]
    return list(dict.fromkeys([identity, *orders]))


def permutation(tokens: int, generator: torch.Generator) -> Order:
    """Any order, each equally likely."""
    return tuple(torch.randperm(tokens, generator=generator).tolist())
