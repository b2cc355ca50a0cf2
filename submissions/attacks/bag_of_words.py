"""The bag of words: which rows of the word embedding received a gradient.

An embedding row gets a gradient only where its token occurs in the batch (FILM, section 4.1). That
is exact while the input embedding is a matrix of its own. Where it is tied to the output layer,
every row also receives the softmax mass of its token, so the rows have to be told apart by size.
"""

from __future__ import annotations

from torch import Tensor

from benchmark.spec import Attack, Observation, Recovery, Role
from submissions.blocks.separation import stand_out


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
        norms = gradient.double().norm(dim=1)  # (V,)
        allowed = [i for i in range(len(public.tokenizer)) if i not in public.forbidden_ids]
        if public.roles.tied:
            at_most = observation.batch_size * public.max_tokens
            found = stand_out(norms[allowed], at_most)
        else:
            found = norms[allowed].nonzero().flatten()
        types = frozenset(allowed[i] for i in found.tolist())
        return Recovery(token_types=types, note=_longest(observation))


def _longest(observation: Observation) -> str:
    positions: Tensor | None = observation.gradient(Role.POSITION_EMBEDDING)  # (P, D)
    if positions is None:
        return ""
    used = positions.abs().amax(dim=1).nonzero().flatten()
    return f"The longest sentence has {int(used.max()) + 1} tokens." if len(used) else ""
