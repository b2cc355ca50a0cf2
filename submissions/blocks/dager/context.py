"""The heads' outputs of an encoder's first layer for sentences made of given tokens.

Every sentence is a choice among the same few tokens at their positions, so queries, keys and
values are computed once. What a head reads is an average of values weighted by exponentials, and
averages are easily changed: trying another token at one position adds one term to each sum.

All that is kept begins with the heads, (H, K, ...): a choice of entries is then a few long copies,
and what many sentences try at a place is one product for each head.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

import torch
from torch import Tensor

from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.heads import Heads
from submissions.blocks.dager.spans import Span

_AT_ONCE = 1 << 20
"""Numbers that are computed at once: what fits a processor's caches."""


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
        self.query = (query * query.shape[-1] ** -0.5).transpose(0, 1).contiguous()  # (H, K, d)
        self.key = key.transpose(0, 1).contiguous()
        self.top = self._largest_scores()  # (H, K, 1), so that no exponential is beyond bounds
        size = min(sketch, span.null.shape[1])
        mix = torch.randn(span.null.shape[1], size, generator=generator, dtype=torch.float64)
        directions = span.null @ torch.linalg.qr(mix).Q.to(span.null.device)  # (D, S)
        parts = directions.to(value.dtype).view(heads.count, -1, size)
        self.values = torch.einsum("khd,hds->hks", value, parts).contiguous()  # (H, K, S)
        self.cost = query.shape[-1] + 2 * size
        """Multiplications of a score: itself, and its part in the two sums of a trial."""

    def _largest_scores(self) -> Tensor:
        step = max(1, _AT_ONCE // self.key[..., 0].numel())
        parts = [
            (queries @ self.key.mT).amax(dim=-1, keepdim=True)
            for queries in self.query.split(step, dim=1)
        ]
        top = torch.cat(parts, dim=1)
        return top if self.bias is None else top + self.bias.amax(dim=(1, 2))[:, None, None]

    def _weights(self, readers: Tensor, read: Tensor) -> Tensor:
        """Weight of each entry (..., B) that is read for each reader (..., A): (H, ..., A, B)."""
        scores = _of(self.query, readers) @ _of(self.key, read).mT
        scores -= _of(self.top, readers)
        self.effort.spend(scores.numel() * self.cost)
        if self.bias is not None:
            rows, columns = self.positions[readers], self.positions[read]
            scores += self.bias[:, rows[..., :, None], columns[..., None, :]]
        return scores.exp_()

    def losses(self, selected: Tensor) -> Tensor:
        """Squared distance of every output of sentences (N, L), (N, L)."""
        step = max(1, _AT_ONCE // self.values[:, :1].numel() // selected.shape[1])
        return torch.cat([self._losses(part) for part in selected.split(step)])

    def _losses(self, selected: Tensor) -> Tensor:
        weights = self._weights(selected, selected)  # (H, N, L, L)
        out = weights @ _of(self.values, selected)  # (H, N, L, S)
        return (out / weights.sum(dim=-1, keepdim=True)).sum(dim=0).square().sum(dim=-1)

    def trials(self, selected: Tensor, place: int, entries: Tensor) -> Tensor:
        """Summed squared distance of sentences (N, L) with each entry (M,) at a place, (N, M)."""
        others = torch.cat([selected[:, :place], selected[:, place + 1 :]], dim=1)  # (N, l)
        weights = self._weights(others, others)  # (H, N, l, l)
        sums = weights @ _of(self.values, others)  # (H, N, l, S)
        heads, size = len(sums), sums.shape[-1]
        sums = sums.view(heads, -1, size).transpose(0, 1).contiguous()  # (N l, H, S)
        total = weights.sum(dim=-1).view(heads, -1, 1)  # (H, N l, 1)
        step = max(1, _AT_ONCE // size // others.numel())
        parts = [self._tried(others, part, sums, total) for part in entries.split(step)]
        return torch.cat(parts, dim=1)

    def _tried(self, others: Tensor, entries: Tensor, sums: Tensor, total: Tensor) -> Tensor:
        """The same, given what the others (N, l) read of each other."""
        flat = others.flatten()
        tried = _of(self.values, entries)  # (H, M, S)
        new = self._weights(flat, entries)  # (H, N l, M)
        share = (total + new).reciprocal_()
        out = share.permute(1, 2, 0).contiguous() @ sums  # (N l, M, S)
        added = (new * share).permute(2, 1, 0).contiguous() @ tried.transpose(0, 1)
        out += added.transpose(0, 1)
        elsewhere = out.square_().sum(dim=-1).view(*others.shape, -1).sum(dim=1)  # (N, M)
        back = self._weights(entries, flat).view(len(tried), -1, *others.shape).transpose(1, 2)
        own = self._weights(entries[:, None], entries[:, None])[..., 0]  # (H, M, 1)
        read = back @ _of(self.values, others) + (own * tried)[:, None]  # (H, N, M, S)
        here = (read / (back.sum(dim=-1, keepdim=True) + own[:, None])).sum(dim=0)  # (N, M, S)
        return elsewhere + here.square_().sum(dim=-1)


def _of(each: Tensor, chosen: Tensor) -> Tensor:
    """What is kept (H, K, ...) of the chosen entries (...): (H, ..., ...)."""
    return each.index_select(1, chosen.flatten()).view(len(each), *chosen.shape, -1)
