"""Freezing the last linear layer: its gradient is neither computed nor sent."""

from __future__ import annotations

from benchmark.spec import Defense, Roles
from submissions.blocks.freezing import is_output


class FreezeOutput(Defense):
    """The strong defense of FLAT-CHAT, section 4.2.4."""

    name = "freeze_output"
    summary = "Neither trains nor shares the last linear layer."
    paper = "FLAT-CHAT, a word recovery attack on federated language model training"

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Everything but the output layer."""
        return not is_output(parameter, roles)
