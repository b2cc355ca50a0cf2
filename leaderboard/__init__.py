"""The leaderboard: from records and scores to ranks and static pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["load_results"]


def load_results(results: str | Path = "leaderboard/results") -> pandas.DataFrame:
    """All results as a pandas DataFrame: one row for each cell and metric, columns as documented.

    The data dictionary is `leaderboard.data.tidy.COLUMNS`.
    """
    from leaderboard.data.export import load_results as load

    return load(results)
