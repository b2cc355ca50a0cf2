"""DAGER with the thresholds and the search that were published, and nothing of ours but speed.

One span a layer, of the query's gradient alone, with one rank for all layers; fixed thresholds on
relative distances; encoders try combinations of what fits each position. Some details follow the
released code: ranks stay below the width, two sentences that agree in most places count as one, and
what was found is taken out of the sets. Random sketches and cached keys only save time, and counted
work ends a search that the authors let run for ten million combinations.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import torch
from torch import Tensor

from benchmark.spec import Observation, Update
from submissions.blocks.dager.anatomy import Anatomy, Site
from submissions.blocks.dager.decoder import Found
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.reader import Reader, boundary
from submissions.blocks.dager.spans import Span
from submissions.blocks.dager.vocabulary import Candidates

FIRST = 1e-5
"""Relative distance from the first attention's span below which a token fits its position."""
SECOND = 1e-3
"""The same for hidden states behind the first layer."""
CUTOFF = 20
"""Dimensions that every span leaves free at least."""
COMBINATIONS = 10_000_000
"""Of one length at most; where there are more, so many are drawn at random."""
ALIKE = 0.7
"""Share of equal places from which two sentences count as one."""
_AT_ONCE = 512


@dataclass(frozen=True)
class FixedSpan(Span):
    """A span with a tolerance that does not depend on the input."""

    threshold: float = 0.0

    def ratios(self, inputs: Tensor) -> Tensor:
        """Relative distance of each input (..., D) as a multiple of the threshold, (...)."""
        inputs = inputs.to(self.basis.dtype)
        size = inputs.norm(dim=-1).clamp_min(1e-30)
        ratios: Tensor = (inputs @ self.null).norm(dim=-1) / (size * self.threshold)
        return ratios

    @property
    def widest(self) -> float:
        """No unit vector is allowed more."""
        return self.threshold


class PublishedReader(Reader):
    """Reads updates by fixed thresholds; no noise scale, no lengths."""

    def _span(self, site: Site, update: Update, lost: float = 1.0) -> Span | None:
        gradient = self._query(site, update)
        if gradient is None or not bool(gradient.any()):
            return None
        _, values, vectors = torch.linalg.svd(gradient)
        rank = self._rank(update)
        return FixedSpan(
            basis=vectors[:rank].T.contiguous(),
            null=vectors[rank:].T.contiguous(),
            values=values[:rank],
            noise=0.0,
            rounding=0.0,
            full=False,
            threshold=FIRST if site is self.anatomy.first else SECOND,
        )

    def _query(self, site: Site, update: Update) -> Tensor | None:
        """Gradient of the query projection, (D, D), also where it is fused with key and value."""
        found = update.tensors.get(site.weights[0])
        if found is None:
            return None
        return (found.T if site.transposed else found)[: self.anatomy.width].double()

    def _rank(self, update: Update) -> int:
        """The largest numerical rank of the queries' gradients that were shared."""
        ranks = [0]
        for layer in range(self.anatomy.layers):
            site = self.anatomy.attention(layer)
            gradient = self._query(site, update)
            if gradient is not None:
                rounding = torch.finfo(update.tensors[site.weights[0]].dtype).eps
                ranks.append(int(torch.linalg.matrix_rank(gradient, rtol=len(gradient) * rounding)))
        return min(max(ranks), self.anatomy.width - CUTOFF)

    def _checks(self, observation: Observation) -> list[tuple[Site, Span]]:
        """The second attention alone."""
        if self.anatomy.layers < 2:
            return []
        site = self.anatomy.attention(1)
        span = self._span(site, observation.update)
        return [] if span is None else [(site, span)]

    def _filled(self, fitting: Candidates, span: Span, observation: Observation) -> Candidates:
        """What fits, and nothing else."""
        return fitting

    def _sentences(
        self,
        span: Span,
        fitting: Candidates,
        checks: list[tuple[Site, Span]],
        observation: Observation,
        effort: Effort,
        generator: torch.Generator,
    ) -> list[Found]:
        """Whole sentences of every length at which the last token fits, longest first."""
        start, end = boundary(self.public)
        if start is None or end is None or not checks:
            return []
        ends = fitting.positions[fitting.tokens == end].tolist()
        search = CombinationSearch(self.anatomy, checks[0], observation.batch_size, generator)
        for number, last in enumerate(lengths := sorted(set(ends), reverse=True)):
            sets = [[start], *(_at(fitting, p, end) for p in range(1, last)), [end]]
            share = (effort.most - effort.spent) // (len(lengths) - number)
            search.try_length(sets, effort, effort.spent + share)
        return search.answer()


def _at(fitting: Candidates, place: int, end: int) -> list[int]:
    """Tokens that fit a place, closest first."""
    here = ((fitting.positions == place) & (fitting.tokens != end)).nonzero().flatten()
    order = fitting.ratios[here].argsort(stable=True)
    found: list[int] = fitting.tokens[here[order]].tolist()
    return found


class CombinationSearch:
    """Scores combinations of tokens by the mean distance of their hidden states."""

    def __init__(
        self, anatomy: Anatomy, check: tuple[Site, Span], batch: int, generator: torch.Generator
    ) -> None:
        self.anatomy, self.batch, self.generator = anatomy, batch, generator
        self.site, self.span = check
        self.found: list[Found] = []

    @torch.inference_mode()
    def try_length(self, sets: list[list[int]], effort: Effort, most: int) -> None:
        """Keep the best combinations of one length, as far as the work goes."""
        sets = [self._left(place, tokens) for place, tokens in enumerate(sets)]
        if not all(sets):
            return
        best: list[Found] = []
        for ids in self._combinations(sets):
            effort.spend_tokens(ids.numel(), ids.shape[1], self.anatomy.width)
            distances = self.span.ratios(self.anatomy.inputs(ids, [self.site])[0]).mean(dim=1)
            order = distances.argsort(stable=True)[: 4 * self.batch]
            tried = [Found(tuple(ids[n].tolist()), float(distances[n])) for n in order.tolist()]
            best = self._distinct(sorted([*best, *tried], key=lambda f: f.ratio))
            if effort.spent >= most or effort.is_over():
                break
        self.found += best

    def _left(self, place: int, tokens: list[int]) -> list[int]:
        """Tokens that no exact sentence has at this place, unless that leaves none."""
        used = {f.ids[place] for f in self.found if f.ratio < 1 and len(f.ids) > place}
        return [token for token in tokens if token not in used] or tokens[:1]

    def _combinations(self, sets: list[list[int]]) -> Iterator[Tensor]:
        """All combinations, or where they are too many as many at random, in parts (N, L)."""
        device = self.anatomy.body.device
        if prod(map(len, sets)) <= COMBINATIONS:
            every = product(*sets)
            while part := list(islice(every, _AT_ONCE)):
                yield torch.tensor(part, device=device)
            return
        for _ in range(0, COMBINATIONS, _AT_ONCE):
            columns = [
                torch.tensor(tokens)[
                    torch.randint(len(tokens), (_AT_ONCE,), generator=self.generator)
                ]
                for tokens in sets
            ]
            yield torch.stack(columns, dim=1).to(device)

    def _distinct(self, ranked: Sequence[Found]) -> list[Found]:
        """The best of each group of sentences that are alike, no more than the batch has."""
        kept: list[Found] = []
        for sentence in ranked:
            if len(kept) < self.batch and not any(_alike(sentence, other) for other in kept):
                kept.append(sentence)
        return kept

    def answer(self) -> list[Found]:
        """Exact sentences, then the closest of the others that are not alike."""
        ranked = sorted(self.found, key=lambda f: f.ratio)
        exact = [f for f in ranked if f.ratio < 1]
        rest = [Found(f.ids, f.ratio, whole=False) for f in ranked if f.ratio >= 1]
        kept = list(exact)
        for sentence in rest:
            if len(kept) < self.batch and not any(_alike(sentence, other) for other in kept):
                kept.append(sentence)
        return kept


def _alike(one: Found, other: Found) -> bool:
    """Whether most places are equal."""
    equal = sum(a == b for a, b in zip(one.ids, other.ids, strict=False))
    return equal >= ALIKE * min(len(one.ids), len(other.ids))
