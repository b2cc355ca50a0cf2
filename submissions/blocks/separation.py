"""Tell the few large values from the many small ones."""

from __future__ import annotations

from torch import Tensor


def stand_out(values: Tensor, at_most: int) -> Tensor:
    """Positions of the values above the widest gap, on a log scale, among the largest ones.

    In a tied gradient the rows of absent tokens carry softmax mass only, which spreads over many
    orders of magnitude, while a present token's row carries an embedding gradient of its own. The
    gap between the two is sought among the `at_most` + 1 largest rows, since a batch cannot hold
    more types than tokens.
    """
    order = values.argsort(descending=True)
    top = values[order[: at_most + 1]].clamp_min(1e-30).log()  # (K + 1,)
    gaps = top[:-1] - top[1:]  # (K,)
    return order[: int(gaps.argmax()) + 1] if len(gaps) else order
