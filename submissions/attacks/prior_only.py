"""Guess fluently without looking: sentences sampled from a public language model."""

from __future__ import annotations

from benchmark.spec import Attack, Knowledge, Observation, Recovery


class PriorOnly(Attack):
    """What the language prior alone is worth; an attack must beat this to have read anything."""

    name = "prior_only"
    summary = "Samples sentences from the public language model, ignoring the update."
    needs = frozenset({Knowledge.PRIOR})
    uses = frozenset({Knowledge.LENGTHS})
    baseline = True

    def recover(self, observation: Observation) -> Recovery:
        """As many samples as the batch has sentences, cut to the longest that may occur."""
        prior = observation.public.prior
        assert prior is not None  # granted, since it is needed
        longest = max(observation.lengths or (observation.public.max_tokens,))
        return Recovery(prior.sample(observation.batch_size, longest, observation.seed))
