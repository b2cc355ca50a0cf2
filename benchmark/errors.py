"""Mistakes that a user or a submission can make, each said in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMES = 12
"""Names that a sentence lists where none is near the one that was given."""


class UserError(Exception):
    """What is wrong, where, and what to do: exit code 2, never a traceback."""


class InvalidUpdate(ValueError):
    """What a defense sent is not an update of the task's model; the message says why."""


def printable(text: str) -> str:
    """One line without control characters: other people's words must not steer a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name nobody knows, with the nearest ones that exist."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    some = ", ".join(names[:MOST_NAMES]) or "none"
    others = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {some}{others}."
    return UserError(f"There is no {kind} called {name!r}; {hint}")
