"""Beam search over a bag of words (FILM, section 4.3 and appendix A).

Beams are kept as places in the bag, so every tensor is as small as the bag. The n-gram penalty
looks at the beam itself and, where several sentences are sought (section 4.5), at those found
before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmark.spec import Public
from submissions.blocks.film.language import Continuations

START = -1
"""Place of the start token, which is not in the bag."""


@dataclass(frozen=True)
class Penalties:
    """What is taken off a beam's log-probability besides what the model says."""

    ngram: int
    """Length of the n-grams that should not be repeated."""
    repeated: float
    """For an n-gram that the beam itself has had before."""
    found: float
    """For an n-gram of a sentence that was found before."""
    diversity: float
    """For each beam of an earlier group that chose the same word in this step."""
    uneven: float = 0.0
    """For a word that the beam has had before, and for a word of the bag that is left out."""


@dataclass(frozen=True)
class Plan:
    """One beam search."""

    words: Tensor
    """Ids of the bag, (M,)."""
    starts: Tensor
    """Which of them may begin a sentence, (M,) bool."""
    start: int
    """Id of the token before the first word."""
    longest: int
    """Words of a sentence at most."""
    is_length: bool
    """Whether sentences of just that many words are preferred to shorter ones."""
    beams: int
    groups: int
    penalties: Penalties
    length_power: float
    """A sentence's log-probability is divided by its length to this power; 1: the mean."""
    counts: Tensor | None = None
    """How often each word may occur at most, (M,), where frequencies are known."""


@dataclass
class Beams:
    """The live beams of all groups."""

    places: Tensor  # (K, t) places in the bag, the start token first
    scores: Tensor  # (K,) log-probabilities less penalties
    group: Tensor  # (K,)

    def ids(self, words: Tensor, start: int) -> Tensor:
        """Last token of every beam, (K,)."""
        last = self.places[:, -1]
        return torch.where(last == START, start, words[last.clamp_min(0)])


@torch.inference_mode()
def beam_search(
    model: Continuations,
    plan: Plan,
    found: Sequence[Sequence[int]] = (),
    is_over: Callable[[], bool] = lambda: False,
) -> list[tuple[float, list[int]]]:
    """Sentences with their scores, best first: of every length, each charged for ending there."""
    device = plan.words.device
    history = _places(found, plan.words)
    beams = Beams(
        places=torch.full((1, 1), START, device=device),
        scores=torch.zeros(1, device=device),
        group=torch.zeros(1, dtype=torch.long, device=device),
    )
    parents = torch.zeros(1, dtype=torch.long, device=device)
    ended: list[tuple[float, list[int]]] = []
    for length in range(plan.longest + 1):
        selected, end = model.step(parents, beams.ids(plan.words, plan.start))
        if length:
            left_out = len(plan.words) - _uses(beams.places, plan).count_nonzero(dim=1)
            totals = beams.scores + end - plan.penalties.uneven * left_out
            totals = totals / (length + 1) ** plan.length_power
            rows = plan.words[beams.places[:, 1:]].tolist()
            ended += zip(totals.tolist(), rows, strict=True)
        if length == plan.longest or is_over():
            break
        options = beams.scores[:, None] + selected - _penalty(beams.places, history, plan)
        options = options.masked_fill(~_allowed(beams.places, plan), float("-inf"))
        parents, places, scores, group = _select(options, beams.group, plan)
        if not len(parents):
            break
        beams = Beams(torch.cat([beams.places[parents], places[:, None]], dim=1), scores, group)
    whole = [each for each in ended if len(each[1]) == plan.longest] if plan.is_length else []
    return _ranked(whole or ended)


def start_words(public: Public, words: Tensor, rule: str) -> Tensor:
    """Which words of a bag may begin a sentence, (M,) bool: `any`, or those with a `capital`.

    A word after a space stands inside a sentence, so by the rule `bare` capitals without a space
    come first where there are any. Where no word has a capital, all may begin.
    """
    texts = public.tokenizer.batch_decode(words[:, None])
    capital = torch.tensor([text.strip()[:1].isupper() for text in texts], dtype=torch.bool)
    bare = capital & torch.tensor([not text[:1].isspace() for text in texts], dtype=torch.bool)
    for choice in {"bare": (bare, capital), "capital": (capital,), "any": ()}[rule]:
        if bool(choice.any()):
            return choice.to(words.device)
    return torch.ones(len(words), dtype=torch.bool, device=words.device)


# ------------------------------------------------------------------------------ one step


def _select(options: Tensor, group: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Parents, words, scores and groups of the next beams, selected group after group.

    Diversity decides who is selected but does not stay in the score (Vijayakumar et al., 2016).
    """
    size = math.ceil(plan.beams / plan.groups)
    taken = torch.zeros(options.shape[1], device=options.device)
    first = options.shape[0] == 1  # all groups start from the one empty beam
    kept = []
    for number in range(plan.groups):
        rows = (group == (0 if first else number)).nonzero().flatten()
        own = options[rows]
        judged = (own - plan.penalties.diversity * taken).flatten()
        best = judged.topk(min(size, len(judged))).indices
        best = best[own.flatten()[best] > float("-inf")]
        places = best % options.shape[1]
        taken += torch.bincount(places, minlength=len(taken))
        numbers = torch.full_like(places, number)
        kept.append((rows[best // options.shape[1]], places, own.flatten()[best], numbers))
    parents, places, scores, groups = (torch.cat(each) for each in zip(*kept, strict=True))
    return parents, places, scores, groups


def _allowed(places: Tensor, plan: Plan) -> Tensor:
    """Words that may come next, (K, M): starts first, later any word that is not used up."""
    if places.shape[1] == 1:
        return plan.starts.expand(len(places), -1)
    if plan.counts is None:
        return plan.starts.new_ones(len(places), len(plan.words))
    return _uses(places, plan) < plan.counts


def _uses(places: Tensor, plan: Plan) -> Tensor:
    """How often every beam has had every word, (K, M)."""
    used = places.new_zeros(len(places), len(plan.words))
    return used.scatter_add_(1, places[:, 1:], torch.ones_like(places[:, 1:]))


def _penalty(places: Tensor, history: Sequence[Tensor], plan: Plan) -> Tensor:
    """What every next word costs every beam for what it would repeat, (K, M)."""
    n, settings = plan.penalties.ngram, plan.penalties
    cost = settings.uneven * (_uses(places, plan) > 0).float()
    if places.shape[1] < n or not n:
        return cost
    last = places[:, places.shape[1] - n + 1 :]  # (K, n - 1)
    if settings.repeated and places.shape[1] > n - 1:
        seen = places.unfold(1, n, 1)  # (K, windows, n)
        matches = (seen[..., :-1] == last[:, None]).all(dim=2)
        cost.scatter_reduce_(1, seen[..., -1], settings.repeated * matches, "amax")
    before = [each.unfold(0, n, 1) for each in history if len(each) >= n]
    if settings.found and before:
        seen = torch.cat(before)
        matches = (seen[None, :, :-1] == last[:, None]).all(dim=2)  # (K, windows)
        again = torch.zeros_like(cost)
        nexts = seen[:, -1].expand(len(places), -1)
        again.scatter_reduce_(1, nexts, settings.found * matches, "amax")
        cost += again
    return cost


def _places(sentences: Sequence[Sequence[int]], words: Tensor) -> list[Tensor]:
    """Sentences as places in the bag, the start token first."""
    table = {int(word): place for place, word in enumerate(words)}
    rows = [[START, *(table[i] for i in sentence if i in table)] for sentence in sentences]
    return [torch.tensor(row, device=words.device) for row in rows]


def _ranked(ended: list[tuple[float, list[int]]]) -> list[tuple[float, list[int]]]:
    """Best first, each sentence once."""
    best: dict[tuple[int, ...], float] = {}
    for score, sentence in ended:
        best[tuple(sentence)] = max(score, best.get(tuple(sentence), float("-inf")))
    return sorted(((s, list(i)) for i, s in best.items()), key=lambda pair: (-pair[0], pair[1]))
