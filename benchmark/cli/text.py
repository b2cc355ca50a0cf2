"""Plain text that fits the terminal: columns, wrapped fields, and a pager for what is long."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from benchmark.errors import printable as printable

LEAST_WIDTH = 40
LEAST_CELL = 16
"""Characters that a column keeps, however wide the others are."""


def width() -> int:
    """Columns of the terminal; 80 where output goes to a file or another program."""
    return max(LEAST_WIDTH, shutil.get_terminal_size((80, 24)).columns)


def cut(text: str, size: int) -> str:
    """At most `size` characters, with an ellipsis behind the last word that fits."""
    text = printable(text)
    if len(text) <= size:
        return text
    head = text[: size - 1]
    end = head.rfind(" ") if text[size - 1] != " " else len(head)
    return f"{head[:end].rstrip() if end > size // 2 else head}…"


def aligned(
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    indent: int = 0,
    name: int = 0,
    least: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[str]:
    """Rows as columns side by side that fit the terminal.

    `right` holds the columns that end flush, `least` what some columns take at least. The last
    column is cut where it does not fit. A cell of the column `name` that is too long to leave space
    for the others stands on a line of its own; no cell is broken inside a word.
    """
    if not rows:
        return
    cells = [[printable(cell) for cell in row] for row in rows]
    sizes, most = _sizes(cells, indent, name, least)
    for row in cells:
        if len(row[name]) > most:
            yield from wrapped(row[name].replace(",", ", "), " " * (indent + 2))
            row[name] = ""
        *head, last = [
            cell.rjust(size) if place in right else cell.ljust(size)
            for place, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        yield (" " * indent + "  ".join([*head, cut(last.rstrip(), sizes[-1])])).rstrip()


def _sizes(
    cells: Sequence[Sequence[str]], indent: int, name: int, least: Mapping[int, int]
) -> tuple[list[int], int]:
    """What each column takes, and the longest name that leaves space for the others."""
    columns = enumerate(zip(*cells, strict=True))
    sizes = [max(least.get(place, 0), *map(len, column)) for place, column in columns]
    free = width() - indent - 2 * (len(sizes) - 1)
    others = sum(sizes[:-1]) - sizes[name] + min(sizes[-1], LEAST_CELL)
    most = max(LEAST_CELL, free - others)
    fitting = [len(row[name]) for row in cells if len(row[name]) <= most]
    sizes[name] = max([least.get(name, 0), *fitting])
    sizes[-1] = max(LEAST_CELL, free - sum(sizes[:-1]))
    return sizes, most


def wrapped(text: str, indent: str = "", hang: str | None = None) -> list[str]:
    """Lines of a paragraph; a word that is longer than a line is not broken."""
    return textwrap.wrap(
        printable(text),
        width(),
        initial_indent=indent,
        subsequent_indent=indent if hang is None else hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def show(lines: Iterable[str]) -> None:
    """Print lines; on a terminal that they do not fit, through a pager."""
    listed = list(lines)
    if sys.stdout.isatty() and len(listed) >= shutil.get_terminal_size().lines:
        import pydoc

        pydoc.pager("\n".join(listed) + "\n")
        return
    for line in listed:
        print(line)
