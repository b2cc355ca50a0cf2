"""Named entities of private sentences: the generator's own spans, or a tagger's for real text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from benchmark.metrics.entities import Tagger
from tasks.corpora.base import Row


def surface_forms(corpus: str, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The entities of each row, as they stand in its text."""
    if corpus.startswith("builtin:"):
        return [tuple(row.text[e.start : e.end] for e in row.entities) for row in rows]
    return _tagger().entities([row.text for row in rows])


@cache
def _tagger() -> Tagger:
    return Tagger()
