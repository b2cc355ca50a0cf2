"""What every corpus yields, wherever its text comes from."""

from dataclasses import dataclass
from typing import Literal

Split = Literal["private", "public", "test"]


@dataclass(frozen=True)
class Entity:
    """A stretch of `Row.text` that would identify someone or something if it leaked."""

    start: int
    end: int
    """One past the last character, as in a slice."""
    kind: str
    """One of person, place, organisation, date, amount, number, title."""


@dataclass(frozen=True)
class Row:
    """One example of a corpus."""

    text: str
    label: int | None = None
    source: str | None = None
    """The German side of a translation pair, whose English side is `text`."""
    entities: tuple[Entity, ...] = ()
