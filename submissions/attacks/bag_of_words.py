"""The bag of words: which rows of the word embedding received a gradient.

How rows are told apart under tied embeddings, noise and pruning is in `submissions/blocks/bag.py`.
"""

from __future__ import annotations

from benchmark.spec import Attack, Knowledge, Observation, Recovery
from submissions.blocks.token_sets.bag import NOISE_OVER, read_bag


class BagOfWords(Attack):
    """Reads token types off the word-embedding gradient, in no order."""

    name = "bag_of_words"
    summary = "Lists the tokens whose embedding rows received a gradient."
    paper = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"
    uses = frozenset({Knowledge.NOISE_SCALE})
    parameters = {"noise_over": NOISE_OVER}

    def recover(self, observation: Observation) -> Recovery:
        """Token types, and the longest sentence where learned positions show it."""
        bag = read_bag(observation, str(self.settings["noise_over"]))
        return Recovery(token_types=frozenset(bag.types.tolist()), note=bag.note)
