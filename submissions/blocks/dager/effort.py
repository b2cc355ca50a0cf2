"""How much a search may do, counted where it is done: the same on every machine.

The unit is an attention score: the weights, in all heads, of one token for another in the first
layer. An encoder's search computes little else. A decoder's sends whole tokens through the layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from submissions.blocks.clock import Clock

LAYER = 6
"""Scores, times the model's width, that a token on its way through a layer costs: projections and
feed-forward part take 12 width² products, a score and its value take 2 width."""


@dataclass
class Effort:
    """The work of one search so far, and how much it may become."""

    most: int
    clock: Clock
    spent: int = 0

    def spend(self, scores: int) -> None:
        """Count scores."""
        self.spent += scores

    def spend_tokens(self, tokens: int, read: int, width: int) -> None:
        """Count tokens that each read so many others in a layer of the given width."""
        self.spend(tokens * (read + LAYER * width))

    @property
    def is_spent(self) -> bool:
        """All the work that was granted is done."""
        return self.spent >= self.most

    def is_over(self) -> bool:
        """Whether to end: the work is done, or the harness is about to end the run."""
        return self.is_spent or self.clock.is_up()
