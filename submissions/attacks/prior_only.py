"""Guess fluently without looking: sentences sampled from a public language model."""

from __future__ import annotations

from collections.abc import Sequence

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
        return self.recover_many([observation])[0]

    def recover_many(self, observations: Sequence[Observation]) -> list[Recovery]:
        """The same for each, drawn together."""
        prior = observations[0].public.prior
        assert prior is not None  # granted, since it is needed
        draws = [
            (each.batch_size, max(each.lengths or (each.public.max_tokens,)), each.seed)
            for each in observations
        ]
        return [Recovery(sentences) for sentences in prior.sample_many(draws)]
