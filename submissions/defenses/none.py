"""No defense: the plain gradient leaves the client."""

from __future__ import annotations

from benchmark.spec import Defense


class NoDefense(Defense):
    """The baseline of every privacy-utility comparison."""

    name = "none"
    summary = "Shares the plain gradient of every parameter."
