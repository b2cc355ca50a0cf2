"""The clock as a safety net: searches end by counted work, and by time only to save the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator


class Clock:
    """Says when a search has to hand over what it has, and afterwards whether it had to.

    A result must not depend on how fast a machine is or on what else it does, so an attack asks for
    the time here only, and what was cut says so (`Recovery.stopped_by_clock`).
    """

    def __init__(self, seconds_left: Callable[[], float], share: float = 1.0) -> None:
        """`share`: how much of the remaining time this search may use."""
        self._seconds_left = seconds_left
        left = seconds_left()
        self.total = share * left
        """Seconds that this search has, infinite where nobody ends it."""
        self._kept = left - self.total if math.isfinite(left) else 0.0
        self.stopped = False
        """Whether time has cut anything so far."""

    def left(self) -> float:
        """Seconds until this search has used its share."""
        return self._seconds_left() - self._kept

    def is_up(self, needed: float = 0.0) -> bool:
        """Whether no more than the needed seconds are left; what asks then ends early."""
        up = self.left() <= needed < math.inf
        self.stopped = self.stopped or up
        return up

    def steps(self, count: int) -> Iterator[int]:
        """1, 2, ... up to the count, fewer where another might not fit in.

        It might take three times as long as the longest so far, and the answer takes a second.
        """
        before, longest = self.left(), 0.0
        for step in range(1, count + 1):
            yield step
            now = self.left()
            longest = max(longest, before - now) if math.isfinite(now) else longest
            before = now
            if step < count and self.is_up(3 * longest + 1):
                return
