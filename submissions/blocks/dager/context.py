"""The heads' outputs of an encoder's first layer for sentences made of given tokens.

Every sentence is a choice among the same few tokens at their positions, so queries, keys and
values are computed once. What a head reads is an average of values weighted by exponentials, and
averages are easily changed: trying another token at one position adds one term to each sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.heads import Heads
from submissions.blocks.dager.spans import Span

_AT_ONCE = 1 << 22
"""Scores that are computed at once."""


class Context:
    """How far the heads' outputs are from their span, for choices among K entries."""

    def __init__(
        self,
        heads: Heads,
        inputs: Tensor,
        positions: Tensor,
        span: Span,
        sketch: int,
        generator: torch.Generator,
        effort: Effort,
    ) -> None:
        self.effort = effort
        query, key, value = heads(inputs)  # (K, H, d)
        self.positions = positions
        self.bias = heads.bias(int(positions.max()) + 1)  # (H, P, P)
        self.query = query * query.shape[-1] ** -0.5
        self.key = key
        self.top = self._largest_scores()  # (K, H), so that no exponential is beyond bounds
        size = min(sketch, span.null.shape[1])
        mix = torch.randn(span.null.shape[1], size, generator=generator, dtype=torch.float64)
        directions = span.null @ torch.linalg.qr(mix).Q.to(span.null.device)  # (D, S)
        parts = directions.to(value.dtype).view(heads.count, -1, size)
        self.values = torch.einsum("khd,hds->khs", value, parts)  # (K, H, S)
        self.cost = query.shape[-1] + 2 * size
        """Multiplications of a score: itself, and its part in the two sums of a trial."""

    def _largest_scores(self) -> Tensor:
        keys = self.key.permute(1, 2, 0)  # (H, d, K)
        step = max(1, _AT_ONCE // self.key[:, :, 0].numel())
        parts = [(query.transpose(0, 1) @ keys).amax(dim=-1).T for query in self.query.split(step)]
        return torch.cat(parts) + (0.0 if self.bias is None else self.bias.amax(dim=(1, 2)))

    def _weights(self, readers: Tensor, read: Tensor) -> Tensor:
        """Weight of each entry (..., B) that is read for each reader (..., A): (..., H, A, B)."""
        query, key = self.query[readers].transpose(-2, -3), self.key[read].transpose(-2, -3)
        scores: Tensor = query @ key.mT - self.top[readers].mT[..., None]
        self.effort.spend(scores.numel() * self.cost)
        if self.bias is not None:
            rows, columns = self.positions[readers], self.positions[read]
            added = self.bias[:, rows[..., :, None], columns[..., None, :]]
            scores = scores + added.movedim(0, -3)
        return scores.exp()

    def losses(self, selected: Tensor) -> Tensor:
        """Squared distance of every output of sentences (N, L), (N, L)."""
        weights = self._weights(selected, selected)  # (N, H, L, L)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = (weights @ self.values[selected].transpose(1, 2)).sum(dim=1)  # (N, L, S)
        return out.square().sum(dim=-1)

    def trials(self, selected: Tensor, place: int, entries: Tensor) -> Tensor:
        """Summed squared distance of sentences (N, L) with each entry (M,) at a place, (N, M)."""
        others = torch.cat([selected[:, :place], selected[:, place + 1 :]], dim=1)  # (N, l)
        many = entries.expand(len(others), -1)  # (N, M)
        values = self.values[others].transpose(1, 2)  # (N, H, l, S)
        weights = self._weights(others, others)  # (N, H, l, l)
        sums = weights @ values  # (N, H, l, S)
        new = self._weights(others, many)  # (N, H, l, M)
        share = (weights.sum(dim=-1, keepdim=True) + new).reciprocal()
        out = share.permute(0, 2, 3, 1) @ sums.transpose(1, 2)  # (N, l, M, S)
        added = (new * share).permute(3, 0, 2, 1).flatten(1, 2) @ self.values[entries]
        out += added.view(len(entries), *others.shape, -1).permute(1, 2, 0, 3)
        elsewhere = out.square().sum(dim=(1, 3))  # (N, M)
        back = self._weights(many, others)  # (N, H, M, l)
        own = self._weights(entries[:, None], entries[:, None])[..., 0].transpose(0, 1)  # (H, M, 1)
        read = back @ values + own * self.values[entries].transpose(0, 1)  # (N, H, M, S)
        here = (read / (back.sum(dim=-1, keepdim=True) + own)).sum(dim=1)  # (N, M, S)
        return elsewhere + here.square().sum(dim=-1)
