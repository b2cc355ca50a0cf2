"""Encoders: whole sentences are searched among the tokens that may stand at each position.

A hidden state depends on the whole sentence, so there is nothing to extend. But the distance of
the heads' outputs from their span shrinks with every token that is right: many sentences are
improved at once, one place at a time, trying everything that may stand there. They start from
tokens whose shares in the gradient are large and alike.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch leaves some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from submissions.blocks.dager.anatomy import Anatomy, Site
from submissions.blocks.dager.context import Context
from submissions.blocks.dager.decoder import Found
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.shares import Shares
from submissions.blocks.dager.spans import Span

SWEEPS = 8
"""Times that every place of a sentence is tried at most before a new start."""
SHARPNESS = 12.0
"""How strongly a start prefers tokens whose shares are alike."""
COVERED = 1e-2
"""Weight of a token that a found sentence already explains."""
KICK = 0.3
"""Share of the places of a good sentence that a new start draws again."""
CHECKED = 4
"""Best sentences of a round that are checked."""
MENDS = 3
"""Times that the words of a settled sentence are moved about before it is left."""
NARROW = 2
"""Tokens tried at a place at first, for each sentence of the batch; later on all of them."""


@dataclass(frozen=True)
class Entries:
    """What may stand where."""

    positions: Tensor  # (K,)
    tokens: Tensor  # (K,)
    shares: Shares


class SentenceSearch:
    """Finds the sentences of a batch one by one."""

    def __init__(
        self,
        anatomy: Anatomy,
        checks: Sequence[tuple[Site, Span]],
        context: Context,
        entries: Entries,
        boundary: tuple[int, int],
        limit: float,
        restarts: int,
        rounds: int,
        generator: torch.Generator,
        effort: Effort,
    ) -> None:
        self.anatomy = anatomy
        self.checks = checks
        self.context = context
        self.entries = entries
        self.boundary = boundary
        self.limit = limit
        self.restarts = restarts
        self.rounds = rounds
        self.generator = generator
        self.effort = effort
        self.covered = torch.zeros_like(entries.tokens, dtype=torch.bool)
        known, self.words = entries.tokens.unique(return_inverse=True)  # (K,)
        self.lookup = entries.tokens.new_full((int(entries.positions.max()) + 1, len(known)), -1)
        """Number of the entry of a position and a word, -1 where there is none."""
        self.lookup[entries.positions, self.words] = torch.arange(
            len(entries.tokens), device=entries.tokens.device
        )
        self.turn = 0
        self.found: list[Found] = []
        self.best: dict[int, tuple[Tensor, Tensor]] = {}
        """By length: sentences that are not exact, best first, and their losses."""

    def run(self, lengths: Sequence[int], known: bool, batch: int, one: bool) -> list[Found]:
        """Exact sentences first, then the best guess for each that is missing.

        With `one`, the search rests as soon as it has found something; it goes on when called
        again.
        """
        while self.turn < self.rounds:
            missing = self._missing(lengths, known, batch)[: batch + self.turn]
            for length in sorted(set(missing)):
                if len(self.found) < batch and not self._is_over():
                    self._round(length, NARROW * batch << min(self.turn // 2, 8))
                    if one and self.found:
                        return self.found
            self.turn += 1
            whole = not missing or len(self.found) >= batch
            if whole or self._is_over() or (self.turn > 1 and self._hopeless(missing)):
                break
        return self.found + self._guesses(self._missing(lengths, known, batch), batch)

    def _is_over(self) -> bool:
        """Nothing more may be tried; something always is."""
        return bool(self.found or self.best) and self.effort.is_over()

    def _hopeless(self, missing: Sequence[int]) -> bool:
        """Nothing is left to choose from, so another round would find the same."""
        return all(
            all(len(self._at(place)) <= 1 for place in range(1, length - 1))
            for length in set(missing)
        )

    def _missing(self, lengths: Sequence[int], known: bool, batch: int) -> list[int]:
        """Lengths that still lack a sentence, as often as they do."""
        if len(self.found) >= batch:
            return []
        have = [len(sentence.ids) for sentence in self.found]
        if not known:
            return sorted(set(lengths), key=lambda n: (n in have, lengths.index(n)))
        left = list(lengths)
        for length in have:
            if length in left:
                left.remove(length)
        return left

    def _guesses(self, missing: Sequence[int], batch: int) -> list[Found]:
        guesses: list[Found] = []
        for length in missing:
            states, losses = self.best.get(length, (None, None))
            if states is None or losses is None:
                continue
            taken = sum(len(guess.ids) == length for guess in guesses)
            if taken < len(states):
                ids = tuple(self.entries.tokens[states[taken]].tolist())
                guesses.append(Found(ids, float(losses[taken]) / length, whole=False))
        guesses.sort(key=lambda guess: guess.ratio)
        return guesses[: max(0, batch - len(self.found))]

    def _at(self, place: int) -> Tensor:
        """Entries that may stand at a place, largest shares first."""
        here = (self.entries.positions == place) & (self.entries.tokens != self.boundary[1])
        numbers = here.nonzero().flatten()
        return numbers[self.entries.shares.sizes[numbers].argsort(descending=True)]

    def _round(self, length: int, most: int) -> None:
        """One descent from new starts, and what comes of it."""
        last = self._end(length)
        first = (self.entries.positions == 0).nonzero().flatten()[:1]
        everything = [first, *(self._at(p) for p in range(1, length - 1)), last]
        if any(len(choice) == 0 for choice in everything):
            return
        likely = [choice[:most] for choice in everything]
        state, losses = self._descend(self._starts(likely, length), likely)
        state, losses = self._descend(state[:CHECKED], everything)
        for _ in range(MENDS):
            repaired, better = self._rearrange(state, losses)
            if not better:
                break
            state, losses = self._descend(repaired, everything)
        passed = self._check(state[:CHECKED])
        for row in state[:CHECKED][passed]:
            ids = tuple(self.entries.tokens[row].tolist())
            if ids not in {sentence.ids for sentence in self.found}:
                self.found.append(Found(ids, 0.0))
            self.covered[row] = True
        rest = torch.ones(len(state), dtype=torch.bool)
        rest[:CHECKED] = ~passed.cpu()
        self._remember(length, state[rest], losses[rest])

    def _end(self, length: int) -> Tensor:
        here = self.entries.positions == length - 1
        return (here & (self.entries.tokens == self.boundary[1])).nonzero().flatten()

    def _remember(self, length: int, state: Tensor, losses: Tensor) -> None:
        if length in self.best:
            state = torch.cat([self.best[length][0], state])
            losses = torch.cat([self.best[length][1], losses])
        order = losses.argsort()
        state, losses = _distinct(state[order], losses[order])
        self.best[length] = (state[: self.restarts], losses[: self.restarts])

    def _starts(self, choices: Sequence[Tensor], length: int) -> Tensor:
        """Sentences of tokens that go together, and good ones of earlier rounds with a kick."""
        count, shares = self.restarts, self.entries.shares
        sizes = shares.sizes * torch.where(self.covered, COVERED, 1.0)
        inner = torch.cat(list(choices[1:-1])) if length > 2 else choices[-1]
        seeds = inner[self._draw(sizes[inner].sqrt()[None], count)[0]]
        seeds[: count // 2] = choices[-1]
        center = shares.directions[seeds]  # (N, D)
        state = seeds[:, None].expand(-1, length).clone()
        for _ in range(2):
            for place, choice in enumerate(choices):
                alike = center @ shares.directions[choice].T  # (N, M)
                chance = (SHARPNESS * alike).exp() * sizes[choice].sqrt()
                state[:, place] = choice[self._draw(chance, 1)[:, 0]]
            center = shares.directions[state[:, 1:]].mean(dim=1)
            center = torch.nn.functional.normalize(center, dim=1)
        if length in self.best:
            good = self.best[length][0][: count // 4]
            kick = torch.rand(good.shape, generator=self.generator).to(good.device) < KICK
            state[: len(good)] = torch.where(kick, state[: len(good)], good)
        return state

    def _draw(self, chance: Tensor, count: int) -> Tensor:
        cpu = chance.cpu().clamp_min(1e-30)
        return torch.multinomial(cpu, count, True, generator=self.generator).to(chance.device)

    def _descend(self, state: Tensor, choices: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        length = len(choices)
        losses = self.context.losses(state).sum(dim=1)
        free = [place for place in range(length) if len(choices[place]) > 1]
        for sweep in range(SWEEPS):
            before = state.clone()
            for number in torch.randperm(len(free), generator=self.generator).tolist():
                if self.effort.is_over():
                    break
                place = free[number]
                tried = self.context.trials(state, place, choices[place])  # (N, M)
                losses, best = tried.min(dim=1)
                state[:, place] = choices[place][best]
            settled = bool((before == state).all())
            share = 2 if sweep >= 2 else 1  # after a few sweeps the better half goes on
            best = losses.argsort()[: max(CHECKED, len(state) // share)]
            state, losses = _distinct(state[best], losses[best])
            if settled or self.effort.is_over():
                break
        return state, losses

    def _rearrange(self, state: Tensor, losses: Tensor) -> tuple[Tensor, bool]:
        """The best of all swaps and moves of tokens for each sentence (N, L), where one is better.

        Attention hardly minds the order, so a misplaced pair is the trap that single changes of
        tokens do not leave.
        """
        orders = _orders(state.shape[1]).to(state.device)  # (V, L)
        state, better = state.clone(), False
        for number in range(len(state)):
            if self.effort.is_over():
                break
            words = self.words[state[number]][orders]  # (V, L)
            variants = self.lookup[torch.arange(state.shape[1], device=state.device), words]
            variants = variants[(variants >= 0).all(dim=1)]
            if len(variants):
                tried = self._tried(variants)
                best = int(tried.argmin())
                if float(tried[best]) < float(losses[number]) * (1 - 1e-3):
                    state[number], better = variants[best], True
        return state, better

    def _tried(self, variants: Tensor) -> Tensor:
        """Losses of the first of many sentences (V, L), as far as the work goes."""
        losses: list[Tensor] = []
        for part in variants.split(256):
            if losses and self.effort.is_over():
                break
            losses.append(self.context.losses(part).sum(dim=1))
        return torch.cat(losses)

    def _check(self, state: Tensor) -> Tensor:
        """Which sentences (N, L) lie in all spans, judged by the model's own forward pass."""
        seen = self.anatomy.inputs(self.entries.tokens[state], [site for site, _ in self.checks])
        worst = [span.ratios(x).amax(dim=1) for (_, span), x in zip(self.checks, seen, strict=True)]
        return torch.stack(worst).amax(dim=0) <= self.limit


@lru_cache(maxsize=64)
def _orders(length: int) -> Tensor:
    """Every swap of two places and every move of one place to another, ends excepted, (V, L)."""
    orders = []
    for a in range(1, length - 1):
        for b in range(1, length - 1):
            order = list(range(length))
            if a < b:
                order[a], order[b] = b, a
                orders.append(order)
            if abs(a - b) > 1:
                order = list(range(length))
                order.insert(b, order.pop(a))
                orders.append(order)
    return torch.tensor(orders, dtype=torch.long).view(-1, length)


def _distinct(state: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
    """Without repetitions, in order."""
    first: dict[tuple[int, ...], int] = {}
    for number, row in enumerate(state.tolist()):
        first.setdefault(tuple(row), number)
    kept = torch.tensor(list(first.values()), dtype=torch.long, device=state.device)
    return state[kept], losses[kept]
