"""Freezing the word embeddings and the last linear layer."""

from __future__ import annotations

from benchmark.spec import Defense, Roles
from submissions.blocks.freezing import is_output, is_word_embedding


class FreezeBoth(Defense):
    """What FLAT-CHAT calls Last+Emb (figure 4)."""

    name = "freeze_both"
    summary = "Neither trains nor shares the word embeddings and the last linear layer."
    paper = "FLAT-CHAT, a word recovery attack on federated language model training"

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Only the body between the two."""
        return not (is_word_embedding(parameter, roles) or is_output(parameter, roles))
