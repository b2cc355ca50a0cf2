"""Reads grammar files: rules with alternatives, word lists and tables.

color = red, green           a word list; indented lines continue it
person(person):               a rule, here one that yields an entity of kind person
  3* {first} {last}           an alternative a line; `3*` makes it three times as likely
noun :: one || many={.one+s}  a table; a column may have a default
  child || children
thing :: animal + tool        a table with the rows of two others
~ {first} is {adj}            an alternative or a row for private text alone: what public text and
                              the models see of that rule are the others, so a private sentence is
                              never one of theirs with other names in it
"""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from tasks.corpora.builtin.template import Template, parse

Side = Literal["private", "public"]
"""Whose text is written: each side has sentence patterns that the other never uses."""

FOLDER = Path(__file__).parent / "grammars"

_HEAD = re.compile(r"(\w+)(?:\((\w+)\))?\s*(::|=|:)\s*(.*)")
_COLUMN = re.compile(r"(\w+)(?:\((\w+)\))?(?:=(.*))?")
_WEIGHT = re.compile(r"(\d+)\* (.*)")
_PRIVATE = "~ "
_COMMA = re.compile(r",(?:\s+|$)")


@dataclass
class Rule:
    """Alternatives of which one is taken; a weight is a repetition of the alternative."""

    kind: str = ""
    alternatives: list[Template] = field(default_factory=list)
    private: list[Template] = field(default_factory=list)
    """Those for private text alone; a rule without any is shared by both sides."""

    def on(self, side: Side) -> list[Template]:
        """The alternatives that text of this side may use."""
        return self.private if side == "private" and self.private else self.alternatives


@dataclass
class Table:
    """Rows of matching cells, such as the forms of a noun or the pronouns of a person."""

    kinds: dict[str, str] = field(default_factory=dict)
    """The columns in order, each with its entity kind or an empty string."""
    defaults: dict[str, Template] = field(default_factory=dict)
    rows: list[dict[str, Template]] = field(default_factory=list)
    private: list[dict[str, Template]] = field(default_factory=list)
    """Rows for private text alone; a table without any is shared by both sides."""

    def on(self, side: Side) -> list[dict[str, Template]]:
        """The rows that text of this side may use."""
        return self.private if side == "private" and self.private else self.rows

    def add(self, cells: list[str], side: Side) -> None:
        """Append a row; columns at the end may be left to their defaults."""
        row = dict(self.defaults)
        row.update(zip(self.kinds, (parse(cell) for cell in cells), strict=False))
        if len(cells) > len(self.kinds) or len(row) < len(self.kinds):
            raise ValueError(f"wrong number of cells: {cells}")
        (self.private if side == "private" else self.rows).append(row)


Grammar = dict[str, Rule | Table]


@cache
def read_grammar(files: tuple[str, ...]) -> Grammar:
    """Read grammar files in order into one grammar; later ones may use and extend earlier ones."""
    grammar: Grammar = {}
    for name in files:
        _read_lines(grammar, (FOLDER / name).read_text(encoding="utf-8").splitlines())
    return grammar


def _read_lines(grammar: Grammar, lines: list[str]) -> None:
    """Add the rules of one file."""
    current: Rule | Table = Rule()
    is_list = False
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            _add(current, line.strip(), is_list)
            continue
        head = _HEAD.fullmatch(line.rstrip())
        if head is None:
            raise ValueError(f"cannot read the grammar line {line!r}")
        is_list = head[3] == "="
        if head[3] == "::":
            current = grammar[head[1]] = _table(grammar, head[4])
            continue
        current = grammar.setdefault(head[1], Rule(head[2] or ""))
        if head[4]:
            _add(current, head[4], is_list)


def _add(current: Rule | Table, text: str, is_list: bool) -> None:
    """Add a line to the rule, word list or table that is being read."""
    side: Side = "private" if text.startswith(_PRIVATE) else "public"
    text = text.removeprefix(_PRIVATE)
    if isinstance(current, Table):
        current.add([cell.strip() for cell in text.split("||")], side)
        return
    alternatives = current.private if side == "private" else current.alternatives
    if is_list:
        alternatives.extend(parse(word) for word in _COMMA.split(text) if word)
    elif weighted := _WEIGHT.fullmatch(text):
        alternatives.extend([parse(weighted[2])] * int(weighted[1]))
    else:
        alternatives.append(parse(text))


def _table(grammar: Grammar, header: str) -> Table:
    """Make an empty table from its columns, or the union of tables already read."""
    if " + " in header:
        parts = [grammar[name.strip()] for name in header.split("+")]
        tables = [part for part in parts if isinstance(part, Table)]
        if any(table.private for table in tables):
            raise ValueError(f"a table with private rows cannot be part of another: {header}")
        rows = [row for table in tables for row in table.rows]
        return Table(tables[0].kinds, tables[0].defaults, rows)
    table = Table()
    for cell in header.split("||"):
        column = _COLUMN.fullmatch(cell.strip())
        if column is None:
            raise ValueError(f"cannot read the column {cell!r}")
        table.kinds[column[1]] = column[2] or ""
        if column[3] is not None:
            table.defaults[column[1]] = parse(column[3])
    return table
