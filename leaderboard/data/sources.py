"""What the files of the project tell about a submission: source, method, departures.

Sources are parsed and never run. Departures from the paper are read from the tables of
`docs/methods.md`, where they stand in the section whose heading names the submission.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmark.paths import ROOT
from benchmark.plugins.candidates import relative

METHODS = ROOT / "docs" / "methods.md"
LONGEST = 200_000
"""Letters of a source that a site carries along."""


@dataclass(frozen=True)
class Source:
    """Where a submission's code lies, its text, and what it says at its top."""

    path: str = ""
    text: str = ""
    method: str = ""


def source_of(reference: str) -> Source:
    """The source of a submission by the registry's reference to it; empty where it is no file."""
    path = Path(reference)
    file = path / "__init__.py" if path.is_dir() else path
    if file.suffix != ".py" or not file.is_file():
        return Source(relative(reference))
    text = file.read_text("utf-8", errors="replace")[:LONGEST]
    try:
        method = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError):
        method = ""
    return Source(relative(str(file)), text, method)


def departures(name: str) -> tuple[tuple[str, str], ...]:
    """What a submission does otherwise than its paper, and what that buys."""
    if not METHODS.is_file():
        return ()
    return _departures(METHODS.read_text("utf-8")).get(name, ())


@lru_cache(maxsize=4)
def _departures(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for section in re.split(r"^#{2,3} ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        rows = tuple(_rows(body))
        for name in re.findall(r"`([^`]+)`", heading) if rows else ():
            found[name] = rows
    return found


def _rows(body: str) -> list[tuple[str, str]]:
    """Rows of the first table that speaks of departures."""
    rows: list[tuple[str, str]] = []
    inside = False
    for line in body.splitlines():
        cells = [_plain(cell) for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| departure"):
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and len(cells) == 2:
            rows.append((cells[0], cells[1]))
    return rows


def _plain(cell: str) -> str:
    """Markdown without its marks; a figure that is yet to be filled in is none."""
    if cell.strip().startswith("@"):
        return ""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", cell).replace("`", "").replace("**", "").strip()
