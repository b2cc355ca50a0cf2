"""Decoders: sentences grow token by token, each step checked behind the first attention.

A hidden state of a causal model depends on its prefix alone, so a prefix that is right so far
lies in the spans and one that went wrong does not. Only the first layer runs, for all prefixes
and continuations at once, with its keys and values kept, and only what passes behind its heads goes
through the rest of it.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from submissions.blocks.dager.anatomy import Anatomy, Site
from submissions.blocks.dager.effort import HEADS, Effort
from submissions.blocks.dager.spans import Span

_AT_ONCE = 2048
"""Continuations in one forward pass."""


@dataclass(frozen=True)
class Found:
    """A sentence with special tokens, and how far it is from the spans."""

    ids: tuple[int, ...]
    ratio: float
    whole: bool = True
    """Whether every token passed; false for the best guess of a search that did not end."""


@dataclass(frozen=True)
class _Prefixes:
    ids: Tensor  # (N, t)
    ratios: Tensor  # (N,) worst so far
    keys: Tensor | None  # (N, heads, t, width of a head)
    values: Tensor | None

    def __len__(self) -> int:
        return len(self.ids)


class PrefixSearch:
    """Extends prefixes as long as the spans agree."""

    def __init__(
        self,
        anatomy: Anatomy,
        checks: Sequence[tuple[Site, Span]],
        tokens_at: Callable[[int], Tensor],
        limit: float,
        beam: int,
        effort: Effort,
    ) -> None:
        self.anatomy = anatomy
        self.sites = [site for site, _ in checks]
        self.spans = [span for _, span in checks]
        self.tokens_at = tokens_at
        self.limit = limit
        self.beam = beam
        self.effort = effort

    def run(self, start: Sequence[int], longest: int) -> list[Found]:
        """Sentences that no token extends any further, closest to the spans first.

        As soon as nothing extends any of them, all are found, and the search ends.
        """
        device = self.anatomy.body.device
        nothing = torch.zeros(1, 0, dtype=torch.long, device=device)
        prefixes = _Prefixes(
            nothing, torch.zeros(1, device=device, dtype=torch.float64), None, None
        )
        found: list[Found] = []
        cut = False
        for place in range(longest):
            given = place < len(start)
            tokens = nothing.new_tensor([start[place]]) if given else self.tokens_at(place)
            cut = place > len(start) and self.effort.is_over()
            if cut or not len(tokens):
                break
            if not given:
                tokens = self._affordable(prefixes, tokens)
            longer, ended = self._extend(prefixes, tokens, unchecked=given)
            found += _sentences(prefixes, ended)
            prefixes = longer
            if not len(prefixes):
                break
        found += _sentences(prefixes, torch.ones(len(prefixes), dtype=torch.bool), whole=not cut)
        return sorted((f for f in found if len(f.ids) > len(start)), key=lambda f: f.ratio)

    def _affordable(self, prefixes: _Prefixes, tokens: Tensor) -> Tensor:
        """The closest tokens, as many as all prefixes may try with the work that is left.

        Where a limit holds most of them back, all are tried: that costs less.
        """
        if isfinite(self.limit):
            return tokens
        many = self.effort.affordable(prefixes.ids.shape[1] + 1, self.anatomy.width)
        return tokens[: max(1, many // len(prefixes))]

    def _extend(
        self, prefixes: _Prefixes, tokens: Tensor, unchecked: bool
    ) -> tuple[_Prefixes, Tensor]:
        """The prefixes with one more token that pass, and which of the old ones found none."""
        rows = torch.arange(len(prefixes), device=tokens.device).repeat_interleave(len(tokens))
        new = tokens.repeat(len(prefixes))
        if not unchecked and isfinite(self.limit):
            near = [
                self._near(prefixes, r, t)
                for r, t in zip(rows.split(_AT_ONCE), new.split(_AT_ONCE), strict=True)
            ]
            rows, new = rows[torch.cat(near)], new[torch.cat(near)]
        if not len(rows):
            return replace(prefixes, ids=prefixes.ids[:0]), torch.ones(len(prefixes)).bool()
        parts = [
            self._checked(prefixes, r, t, unchecked)
            for r, t in zip(rows.split(_AT_ONCE), new.split(_AT_ONCE), strict=True)
        ]
        row = torch.cat([part[0] for part in parts])
        ids, ratios, keys, values = (torch.cat(tensors) for tensors in
                                     zip(*(part[1:] for part in parts), strict=True))  # fmt: skip
        best = ratios.argsort(stable=True)[: self.beam]
        ended = torch.ones(len(prefixes), dtype=torch.bool, device=row.device)
        ended[row] = False  # cut by the beam is not ended
        keys, values = keys[best], values[best]
        if prefixes.keys is not None and prefixes.values is not None:
            keys = torch.cat([prefixes.keys[row[best]], keys], dim=2)
            values = torch.cat([prefixes.values[row[best]], values], dim=2)
        return _Prefixes(ids[best], ratios[best], keys, values), ended

    def _near(self, prefixes: _Prefixes, rows: Tensor, tokens: Tensor) -> Tensor:
        """Which continuations pass behind the heads, before most of the layer's work is done."""
        self.effort.spend_tokens(len(rows), prefixes.ids.shape[1] + 1, self.anatomy.width, HEADS)
        seen = self.anatomy.inputs(tokens[:, None], self.sites[:1], _continued(prefixes, rows))
        near: Tensor = self.spans[0].ratios(seen[0][:, 0]) <= self.limit
        return near

    def _checked(
        self, prefixes: _Prefixes, rows: Tensor, tokens: Tensor, unchecked: bool
    ) -> tuple[Tensor, ...]:
        """Parents, ids, ratios and the last token's keys and values of continuations that pass."""
        self.effort.spend_tokens(len(rows), prefixes.ids.shape[1] + 1, self.anatomy.width)
        cache = _continued(prefixes, rows)
        seen = self.anatomy.inputs(tokens[:, None], self.sites, cache)
        each = [span.ratios(x[:, 0]) for span, x in zip(self.spans, seen, strict=True)]
        ratios = torch.stack(each).amax(dim=0)  # (N,)
        passed = (ratios <= self.limit) | unchecked
        ids = torch.cat([prefixes.ids[rows], tokens[:, None]], dim=1)[passed]
        worst = ratios[passed] if not unchecked else torch.zeros_like(ratios[passed])
        layer: Any = cache.layers[0]
        worst = torch.maximum(prefixes.ratios[rows][passed], worst)
        return rows[passed], ids, worst, layer.keys[passed, :, -1:], layer.values[passed, :, -1:]


def _continued(prefixes: _Prefixes, rows: Tensor) -> DynamicCache:
    """Keys and values of prefixes, to be continued."""
    cache = DynamicCache()
    if prefixes.keys is not None and prefixes.values is not None:
        cache.update(prefixes.keys[rows], prefixes.values[rows], 0)
    return cache


def _sentences(prefixes: _Prefixes, which: Tensor, whole: bool = True) -> list[Found]:
    kept = which.nonzero().flatten().tolist()
    return [Found(tuple(prefixes.ids[n].tolist()), float(prefixes.ratios[n]), whole) for n in kept]
