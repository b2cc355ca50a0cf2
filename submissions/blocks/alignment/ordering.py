"""Words without order, put in the order that a language model finds likeliest."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.spec import Prior


def ordered_by_prior(prior: Prior, types: Sequence[int], size: int, beams: int) -> list[int]:
    """A sentence of `size` tokens that uses every type once before any twice, by beam search."""
    partial: list[tuple[int, ...]] = [()]
    for place in range(size):
        longer = sorted({(*p, t) for p in partial for t in _next(p, types, size - place)})
        scores = prior.negative_log_likelihood(longer).tolist()
        ranked = sorted(zip(scores, longer, strict=True))
        partial = [sentence for _, sentence in ranked[:beams]]
    return list(partial[0])


def _next(partial: tuple[int, ...], types: Sequence[int], places: int) -> list[int]:
    """Unused types; all of them where there are more places left than those take."""
    unused = [t for t in types if t not in partial]
    return unused if len(unused) >= places else list(types)
