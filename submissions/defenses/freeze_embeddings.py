"""Freezing the word embeddings: their gradient is neither computed nor sent."""

from __future__ import annotations

from benchmark.spec import Defense, Roles
from submissions.blocks.freezing import is_word_embedding


class FreezeEmbeddings(Defense):
    """FILM's own defense (section 5). A tied output layer is the same matrix, so it freezes too."""

    name = "freeze_embeddings"
    summary = "Neither trains nor shares the word embeddings."
    paper = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Everything but the word vectors."""
        return not is_word_embedding(parameter, roles)
