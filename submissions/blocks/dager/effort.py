"""How much a search may do, counted where it is done: the same on every machine.

The unit is a multiplication in the first layer, which takes about as long in a small model as in a
large one. An encoder's search computes the heads' outputs of whole sentences over and over. A
decoder's sends tokens through the layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from submissions.blocks.clock import Clock

LAYER = 12
"""Multiplications, times the model's width squared, that a token costs on its way through the
projections and the feed-forward part of a layer."""
HEADS = 4
"""The same for the first half of the way: projections, and the check behind the heads."""


@dataclass
class Effort:
    """The work of one search so far, and how much it may become."""

    most: int
    clock: Clock
    spent: int = 0

    def spend(self, multiplications: int) -> None:
        """Count multiplications."""
        self.spent += multiplications

    def spend_tokens(self, tokens: int, read: int, width: int, part: int = LAYER) -> None:
        """Count tokens that each read so many others in a layer of the given width, or in part."""
        self.spend(tokens * width * (2 * read + part * width))

    def affordable(self, read: int, width: int) -> int:
        """Tokens that could still go through a layer, each reading so many others."""
        return max(0, self.most - self.spent) // (width * (2 * read + LAYER * width))

    @property
    def is_spent(self) -> bool:
        """All the work that was granted is done."""
        return self.spent >= self.most

    def is_over(self) -> bool:
        """Whether to end: the work is done, or the harness is about to end the run."""
        return self.is_spent or self.clock.is_up()
