"""Mistakes that a user can make: one sentence each, exit code 2, never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What is wrong, where, and what to do, in one sentence."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name nobody knows, with the nearest ones that exist."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names) or 'none'}."
    )
    return UserError(f"There is no {kind} called {name!r}; {hint}")
