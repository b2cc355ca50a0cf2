"""Where the benchmark's text comes from: built-in corpora, local files or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tasks.corpora.base import Entity, Row, Split
from tasks.corpora.sources import digest, load, names

if TYPE_CHECKING:
    from benchmark.metrics.entities import CapitalLetters, Tagger

__all__ = ["Entity", "Row", "Split", "digest", "entities", "load", "names"]


def entities(reference: str, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Surface forms of each row's named entities: the corpus' own marks, else a tagger's."""
    if reference.startswith("builtin:"):
        return [tuple(row.text[e.start : e.end] for e in row.entities) for row in rows]
    if reference.startswith("own:"):
        return _any_tagger().entities([row.text for row in rows])
    return _tagger().entities(row.text for row in rows)


@lru_cache(maxsize=1)
def _any_tagger() -> Tagger | CapitalLetters:
    """The best that is installed: a user's own text is read without any preparation."""
    from benchmark.metrics.entities import best_tagger

    return best_tagger()


@lru_cache(maxsize=1)
def _tagger() -> Tagger:
    """One pipeline for the process; it takes a second to load."""
    from benchmark.metrics.entities import Tagger

    return Tagger()
