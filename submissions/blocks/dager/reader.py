"""From one observation to sentences: the steps of DAGER in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import torch
from torch import Tensor

from benchmark.spec import Observation, Public, Recovery, Update
from submissions.blocks.dager.anatomy import Anatomy, Site
from submissions.blocks.dager.context import Context
from submissions.blocks.dager.decoder import Found, PrefixSearch
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.encoder import Entries, SentenceSearch
from submissions.blocks.dager.heads import Heads
from submissions.blocks.dager.peeling import Peeling, Remainder
from submissions.blocks.dager.shares import Shares, shares_of
from submissions.blocks.dager.spans import Span, span_of
from submissions.blocks.dager.vocabulary import Candidates, FirstInputs, candidates, closest
from submissions.blocks.sentences import special_tokens

SKETCH = 48
"""Directions of the null space that the encoder's search looks at."""
CLOSEST = 4
"""Candidates, for each sentence of the batch, at a position where nothing fits."""
UNEVEN = 2.0
"""Times the limit, once sentences were taken out: what that leaves of them is no even noise."""
SPARSE = 0.5
"""An update with fewer entries than this was pruned or masked."""
CROWDED = 16
"""Candidates at a position, for each sentence of the batch, beyond which the closest are kept."""


@dataclass(frozen=True)
class Settings:
    """The attack's parameters."""

    limit: float
    beam: int
    restarts: int
    rounds: int


class Reader:
    """Reads the updates of one task."""

    def __init__(self, public: Public, settings: Settings) -> None:
        self.public = public
        self.settings = settings
        self.anatomy = Anatomy(public.model)
        self.inputs = FirstInputs(self.anatomy, public.max_tokens)
        self.heads = None if self.anatomy.causal else Heads(self.anatomy)
        self.sites = self.anatomy.behind(public.objective.name == "causal-lm")
        self.peeling = Peeling(public, [self.anatomy.first, *self.sites])

    @torch.inference_mode()
    def read(self, observation: Observation, effort: Effort) -> Recovery:
        """Spans, then tokens, then sentences."""
        update = observation.update
        span = self._span(self.anatomy.first, update)
        if span is None:
            return Recovery(note="The update holds no gradient of the first attention layer.")
        generator = torch.Generator().manual_seed(observation.seed)
        fitting = self._fitting(span, generator)
        if not self.anatomy.causal:
            fitting = self._filled(fitting, span, observation)
        checks = self._checks(observation)
        if self.anatomy.causal:
            found = self._prefixes(span, fitting, checks, observation, effort)
        else:
            found = self._sentences(span, fitting, checks, observation, effort, generator)
        return self._answer(found, fitting, span, observation)

    def _span(self, site: Site, update: Update, lost: float = 1.0) -> Span | None:
        drift = self._drift(site, update) if update.kind == "difference" else 0.0
        return span_of(site, update.tensors, update.noise_scale, drift, lost)

    def _drift(self, site: Site, update: Update) -> float:
        """How far, relatively, inputs of a site moved between steps, with the weights before it.

        Every matrix on the way adds its own movement, embeddings that of the row that moved most.
        """
        embeddings, total = set(self.public.roles.names.values()), 0.0
        for name, weight in self.public.model.named_parameters():
            if name in site.weights:
                break
            if name in update.tensors and weight.dim() > 1:
                moved, before = update.tensors[name].double(), weight.detach().double()
                if name not in embeddings:
                    moved, before = moved.flatten(), before.flatten()
                shares = moved.norm(dim=-1) / before.norm(dim=-1).clamp_min(1e-30)
                total += float(shares.max())
        return total

    def _checks(self, observation: Observation) -> list[tuple[Site, Span]]:
        spans = [(site, self._span(site, observation.update)) for site in self.sites]
        return [(site, span) for site, span in spans if span is not None]

    def _fitting(self, span: Span, generator: torch.Generator) -> Candidates:
        """What fits the span, without entries that no text contains."""
        found = candidates(self.inputs, span, self.settings.limit, generator)
        end = boundary(self.public)[1]
        allowed = torch.ones(len(self.inputs.words), dtype=torch.bool, device=found.tokens.device)
        allowed[list(self.public.forbidden_ids)] = False
        kept = allowed[found.tokens]
        if not self.anatomy.causal:
            kept &= found.positions > 0
            kept |= (found.tokens == end) & (found.positions > 1)
        numbers = kept.nonzero().flatten()
        most = CROWDED * self.public.batch_size
        if not self.inputs.has_places:  # one set of words for all places
            most *= self.public.max_tokens
        if len(numbers) > most * len(self.inputs.places):  # far too many: the closest at each place
            numbers = numbers[_largest(found.positions[numbers], -found.ratios[numbers], most)]
        return Candidates(found.positions[numbers], found.tokens[numbers], found.ratios[numbers])

    def _filled(self, fitting: Candidates, span: Span, observation: Observation) -> Candidates:
        """At places of an encoder's sentences where nothing fits, what comes closest."""
        end = boundary(self.public)[1]
        if end is None:
            return fitting
        fitting = self._with_ends(fitting, span, observation, end)
        longest = int(fitting.positions[fitting.tokens == end].max()) + 1
        words = torch.arange(len(self.inputs.words), device=fitting.tokens.device)
        words = words[~torch.isin(words, words.new_tensor(sorted(self.public.forbidden_ids)))]
        taken = set(fitting.positions[fitting.tokens != end].tolist())
        empty = [place for place in range(1, longest - 1) if place not in taken]
        most = CLOSEST * observation.batch_size
        return fitting.and_also(closest(self.inputs, span, empty, words, most))

    def _with_ends(
        self, fitting: Candidates, span: Span, observation: Observation, end: int
    ) -> Candidates:
        """With an end at every known length, or where none fits at those that come closest."""
        there = fitting.positions[fitting.tokens == end]
        places = torch.arange(2, len(self.inputs.places), device=there.device)
        if observation.lengths is not None:
            places = places.new_tensor(sorted({n - 1 for n in observation.lengths}))
            places = places[~torch.isin(places, there)]
        elif len(there):
            return fitting
        ratios = span.ratios(self.inputs.build(torch.full_like(places, end), places))
        if observation.lengths is None:
            best = ratios.argsort()[: CLOSEST * observation.batch_size]
            places, ratios = places[best], ratios[best]
        return fitting.and_also(Candidates(places, torch.full_like(places, end), ratios))

    def _prefixes(
        self,
        span: Span,
        fitting: Candidates,
        checks: list[tuple[Site, Span]],
        observation: Observation,
        effort: Effort,
    ) -> list[Found]:
        order = fitting.ratios.argsort(stable=True)
        positions, tokens = fitting.positions[order], fitting.tokens[order]

        def tokens_at(place: int) -> Tensor:
            return tokens[positions == place] if self.inputs.has_places else tokens

        if not checks:
            return []
        start = [] if (first := boundary(self.public)[0]) is None else [first]

        def search(limit: float, beam: int) -> list[Found]:
            prefixes = PrefixSearch(self.anatomy, checks, tokens_at, limit, beam, effort)
            return prefixes.run(start, self.public.max_tokens)

        crowded = any(check.full for _, check in checks) or span.full  # no prefix can be ruled out
        found = [] if crowded else search(self.settings.limit, self.settings.beam)
        if found:
            return found
        return [replace(guess, whole=False) for guess in search(inf, observation.batch_size)]

    def _sentences(
        self,
        span: Span,
        fitting: Candidates,
        checks: list[tuple[Site, Span]],
        observation: Observation,
        effort: Effort,
        generator: torch.Generator,
    ) -> list[Found]:
        """One sentence after another, each taken out of the update where that can be done."""
        found: list[Found] = []
        left, peels = Remainder(observation), not (span.full or observation.update.noise_scale)
        while True:
            search = self._search(span, fitting, checks, left, effort, generator)
            if search is None:
                return found
            more = search(peels)
            whole = [sentence.ids for sentence in more if sentence.whole]
            if not peels or not whole or len(whole) >= left.observation.batch_size:
                return found + more
            batch = observation.batch_size
            rest = None if effort.is_over() else self.peeling.without(left, whole, batch)
            if rest is None:
                return found + search(False)
            found, left = found + more, rest
            remaining = self._remaining(fitting, checks, left)
            if remaining is None:
                return found
            span, fitting, checks = remaining

    def _remaining(
        self, fitting: Candidates, checks: list[tuple[Site, Span]], left: Remainder
    ) -> tuple[Span, Candidates, list[tuple[Site, Span]]] | None:
        """Span, candidates and checks of what is left: no other candidates than before.

        Behind the first check the whole batch's spans go on being used, which hold what is left.
        """
        span = self._span(self.anatomy.first, left.observation.update, left.lost)
        if span is None:
            return None
        ratios = span.ratios(self.inputs.build(fitting.tokens, fitting.positions))
        kept = ratios <= UNEVEN * self.settings.limit
        fewer = Candidates(fitting.positions[kept], fitting.tokens[kept], ratios[kept])
        fewer = self._filled(fewer, span, left.observation)
        first = self._span(self.sites[0], left.observation.update, left.lost)
        return span, fewer, [] if first is None else [(self.sites[0], first), *checks[1:]]

    def _search(
        self,
        span: Span,
        fitting: Candidates,
        checks: list[tuple[Site, Span]],
        left: Remainder,
        effort: Effort,
        generator: torch.Generator,
    ) -> Callable[[bool], list[Found]] | None:
        """A search that rests at its first finds or not; None where nothing can be searched."""
        limit = self.settings.limit * (1.0 if left.lost == 1.0 else UNEVEN)
        observation = left.observation
        start, end = boundary(self.public)
        if start is None or end is None or not checks or checks[0][0] is not self.sites[0]:
            return None
        first = fitting.tokens.new_zeros(1)
        positions = torch.cat([first, fitting.positions])
        tokens = torch.cat([first + start, fitting.tokens])
        shares = shares_of(self.anatomy.first, observation.update.tensors, span,
                           self.inputs.build(tokens, positions))  # fmt: skip
        lengths = observation.lengths or _lengths(positions, tokens, shares.sizes, end)
        if not lengths:  # noise hides where sentences end
            return None
        kept = positions < max(lengths)
        positions, tokens = positions[kept], tokens[kept]
        entries = Entries(positions, tokens, Shares(shares.sizes[kept], shares.directions[kept]))
        inputs = self.inputs.build(tokens, positions).to(self.inputs.words.dtype)
        assert self.heads is not None  # of every encoder
        context = Context(self.heads, inputs, positions, checks[0][1], SKETCH, generator, effort)
        search = SentenceSearch(
            self.anatomy, checks, context, entries, (start, end), limit,
            self.settings.restarts, self.settings.rounds, generator, effort,
        )  # fmt: skip
        known, batch = observation.lengths is not None, observation.batch_size
        return lambda one: search.run(lengths, known, batch, one)

    def _answer(
        self, found: list[Found], fitting: Candidates, span: Span, observation: Observation
    ) -> Recovery:
        hidden = self.public.forbidden_ids
        sentences = [tuple(i for i in f.ids if i not in hidden) for f in found]
        types = {i for sentence in sentences for i in sentence}
        complete = sum(f.whole for f in found) >= observation.batch_size
        if not complete and not span.full:
            types |= set(fitting.tokens.tolist()) - hidden
        return Recovery(sentences, frozenset(types), self._note(found, span, observation))

    def _note(self, found: list[Found], span: Span, observation: Observation) -> str:
        width = len(span.basis)
        whole = sum(f.whole for f in found)
        if span.full:
            shared = observation.update.tensors
            tensors = [shared[n] for n in self.anatomy.first.weights if n in shared]
            left = sum(int(t.count_nonzero()) for t in tensors) / sum(t.numel() for t in tensors)
            if left < SPARSE:
                return (
                    f"The attention's gradients hold {left:.2%} of their entries, so the spans "
                    "exclude little: the best partial result."
                )
            if observation.update.noise_scale:
                return "The noise hides the spans, which exclude little: the best partial result."
            return (
                f"The batch has at least as many tokens as the model is wide ({width}), so the "
                "spans exclude little: the best partial result."
            )
        if not self.sites:
            return "No layer behind the first attention spans the inputs: token types only."
        if whole < observation.batch_size:
            return f"{whole} of {observation.batch_size} sentences lie in all spans; " + (
                "the others are the closest that were found." if len(found) > whole else
                "no others were found."
            )  # fmt: skip
        return ""


def _lengths(positions: Tensor, tokens: Tensor, sizes: Tensor, end: int) -> tuple[int, ...]:
    """Lengths at which the end token fits, those with the largest shares first."""
    ends = (tokens == end).nonzero().flatten()
    best = ends[sizes[ends].argsort(descending=True)]
    return tuple(int(p) + 1 for p in positions[best])


def _largest(positions: Tensor, sizes: Tensor, most: int) -> Tensor:
    """Marks the entries of each position with the largest shares, (K,)."""
    order = sizes.argsort(descending=True)
    order = order[positions[order].argsort(stable=True)]
    places = positions[order]
    counts = torch.bincount(places)
    rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[places]
    marked = torch.zeros_like(positions, dtype=torch.bool)
    marked[order[rank < most]] = True
    return marked


def boundary(public: Public) -> tuple[int | None, int | None]:
    """The token before the first word of a sentence and the one after the last."""
    before, after = special_tokens(public)
    return (before[-1] if before else None), (after[0] if after else None)
