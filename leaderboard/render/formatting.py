"""Numbers as the pages write them."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

HEAT_STEPS = 10
LONGEST_TEXT = 2_000
"""Characters of a text that is not our own which a page shows in one place."""


def shortened(value: Any) -> Any:
    """What a template is given to write: foreign text of any length is cut, and says so."""
    if not isinstance(value, str) or isinstance(value, Markup) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT:,} characters more)"


def number(value: float | None) -> str:
    """Three decimals below ten, fewer above; a dash where there is nothing to show.

    Only zero is written as zero.
    """
    if value is None:
        return "–"
    size = abs(value)
    if 0 < value < 5e-4:
        return "<0.001"
    if size >= 1e6:
        return f"{value:.2e}"
    decimals = 3 if size < 10 else 1 if size < 1000 else 0
    return f"{value:,.{decimals}f}".replace("-", "−")


def heat(value: float) -> int:
    """The shade, 0 to 10, of a share between 0 and 1."""
    return round(min(max(value, 0.0), 1.0) * HEAT_STEPS)


def position(value: float, top: float) -> float:
    """Where a value lies on a bar of 100 units that ends at `top`."""
    return round(100 * min(max(value / top, 0.0), 1.0), 2)


def size(count: float | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def citation(paper: str) -> str:
    """`Balunović et al., 2022`: who and when, from the line that names a paper."""
    who = paper.split(",")[0].strip()
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return f"{who}, {years[-1]}" if years and years[-1] not in who else who
