"""The bag of words: which rows of the word embedding received a gradient.

An embedding row gets a gradient only where its token occurs in the batch (FILM, section 4.1). That
is exact while the input embedding is a matrix of its own. Where it is tied to the output layer,
every row is filled, and present tokens are told from absent ones by what sticks out of the span
of the others (`submissions/blocks/separation.py`).
"""

from __future__ import annotations

from torch import Tensor

from benchmark.spec import Attack, Observation, Recovery, Role
from submissions.blocks.separation import present_rows


class BagOfWords(Attack):
    """Reads token types off the word-embedding gradient, in no order."""

    name = "bag_of_words"
    summary = "Lists the tokens whose embedding rows received a gradient."
    paper = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"
    observes = frozenset({Role.WORD_EMBEDDING})

    def recover(self, observation: Observation) -> Recovery:
        """Token types, and the longest sentence where learned positions show it."""
        gradient = observation.gradient(Role.WORD_EMBEDDING)  # (V, D)
        assert gradient is not None  # shared, since it is observed
        public = observation.public
        if public.roles.tied:
            found = present_rows(gradient, observation.batch_size * public.max_tokens)
        else:
            found = gradient.abs().amax(dim=1).nonzero().flatten()
        types = frozenset(found.tolist()) - public.forbidden_ids
        return Recovery(token_types=types, note=_longest(observation))


def _longest(observation: Observation) -> str:
    positions: Tensor | None = observation.gradient(Role.POSITION_EMBEDDING)  # (P, D)
    if positions is None:
        return ""
    used = positions.abs().amax(dim=1).nonzero().flatten()
    return f"The longest sentence has {int(used.max()) + 1} tokens." if len(used) else ""
