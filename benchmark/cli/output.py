"""Rows for people and for programs: plain text, JSON or CSV of the same data."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TextIO

from benchmark.cli import text
from benchmark.errors import UserError

Format = Literal["text", "json", "csv"]
Row = Mapping[str, object]


def output_format(as_json: bool, as_csv: bool) -> Format:
    """The format that flags stand for."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other; choose one.")
    return "json" if as_json else "csv" if as_csv else "text"


def emit(
    rows: Sequence[Row],
    form: Format,
    lines: Callable[[], Iterable[str]],
    whole: object = None,
) -> None:
    """Rows in one of the formats; `lines` makes the text, and `whole` is the JSON if not rows."""
    if form == "json":
        print(json.dumps(list(rows) if whole is None else whole, indent=1, default=str))
    elif form == "csv":
        write_csv(rows, sys.stdout)
    else:
        text.show(lines())


def write_csv(rows: Sequence[Row], stream: TextIO) -> None:
    """A header with every key of any row, then a line for each; nested values as JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])


def _cell(value: object) -> object:
    if value is None:
        return ""
    nested = isinstance(value, Mapping | list | tuple)
    return json.dumps(value, default=str) if nested else value
