"""Expands templates into sentences, deterministically and with exact entity spans.

Entities travel through the expansion as private-use characters around their text, so that
articles, capitals and spacing can be put right before any position is counted.
"""

import random
import re
from dataclasses import dataclass, field

from tasks.corpora.base import Entity
from tasks.corpora.builtin.grammar import Grammar, Rule, Side, Table
from tasks.corpora.builtin.inflect import inflect, takes_an
from tasks.corpora.builtin.template import Choice, Digits, Node, Number, Slot, Template

KINDS = ("person", "place", "organisation", "date", "amount", "number", "title")
_CLOSE = "\ue000"
_OPEN = {kind: chr(0xE001 + index) for index, kind in enumerate(KINDS)}
_KIND = {mark: kind for kind, mark in _OPEN.items()}
_MARK = re.compile("([\ue000-\ue0ff])")
# Patterns that begin with a set of characters are found fastest; what precedes is looked back at.
_ARTICLE = re.compile('([Aa]) (?<=\\b[Aa] )(?=[\ue000-\ue0ff"]*([\\w$]+ ?))')
_START = re.compile('[\\^.!?](?:(?<=\\^)|\ue000*"? )[\ue000-\ue0ff"]*[a-zäöü]')
_SPACE_BEFORE = re.compile(r" (?=[,.;?!](?!\d))")
_APART = re.compile(r"((?<!\d)[,.;:]|[,.;:](?!\d)|[!?()\"])")
_CLITIC = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m))\b")
_OPPOSITE = {"good": "bad", "bad": "good"}


@dataclass
class Record:
    """A table row that a sentence refers to; each of its columns is expanded once."""

    table: Table
    row: dict[str, Template]
    texts: dict[str, str] = field(default_factory=dict)
    scope: "Scope" = field(default_factory=dict)


Scope = dict[str, "str | Record"]


class Writer:
    """Writes sentences of one side of a grammar from one seed.

    Only `random.Random.random` is used: it is the one method whose sequence Python promises
    to keep over its versions.
    """

    def __init__(self, grammar: Grammar, side: Side, seed: str) -> None:
        self._grammar = grammar
        self._side = side
        self._random = random.Random(seed).random
        self._label = ""
        self._used: set[int] = set()  # identities: hashing whole templates takes longer

    def pick(self, count: int) -> int:
        """Draw one of `range(count)`, all equally likely."""
        return int(self._random() * count)

    def sentence(self, label: str) -> str:
        """Expand the rule `sentence` for a label, entity marks included."""
        self._begin(label)
        return self._node(Slot("sentence", "", "", ""), {}, None)

    def columns(self, label: str) -> dict[str, str]:
        """Expand all columns of a row of the table `sentence`; what they remember is shared."""
        self._begin(label)
        table = self._grammar["sentence"]
        assert isinstance(table, Table)
        record = self._draw(table)
        return {column: self._cell(record, column) for column in table.kinds}

    def _begin(self, label: str) -> None:
        self._label = label
        self._used.clear()

    def _expand(self, template: Template, scope: Scope, record: Record | None) -> str:
        if len(template) == 1 and isinstance(template[0], str):
            return template[0]  # most are words of a list
        pieces = [n if isinstance(n, str) else self._node(n, scope, record) for n in template]
        return "".join(pieces)

    def _node(self, node: Node, scope: Scope, record: Record | None) -> str:
        if isinstance(node, Slot):
            text = self._reference(node, scope, record)
            return inflect(text, node.inflection) if node.inflection else text
        if isinstance(node, Choice):
            return self._expand(node.options[self.pick(len(node.options))], scope, record)
        if isinstance(node, Number):
            return _mark(self._number(node), "number")
        assert isinstance(node, Digits)
        low = 10 ** (node.count - 1)
        return _mark(str(low + self.pick(9 * low)), "number")

    def _reference(self, slot: Slot, scope: Scope, record: Record | None) -> str:
        """Expand what a slot names: something remembered, a table or a rule, in this order."""
        if not slot.name:
            assert record is not None
            return self._cell(record, slot.column)
        known = None if slot.remember else scope.get(slot.name)
        if isinstance(known, str):
            return known
        target = known or self._find(slot.name)
        if isinstance(target, Rule):
            text = _mark(self._expand(self._alternative(target), scope, record), target.kind)
            if slot.remember:
                scope[slot.remember] = text
            return text
        found = self._draw(target) if isinstance(target, Table) else target
        if slot.remember:
            scope[slot.remember] = found
        return self._cell(found, slot.column or next(iter(found.table.kinds)))

    def _alternative(self, rule: Rule) -> Template:
        """Draw an alternative, if possible one that this sentence has not used yet."""
        alternatives = rule.on(self._side)
        count = len(alternatives)
        for _ in range(4):
            selected = alternatives[self.pick(count)]
            if id(selected) not in self._used or count == 1:
                break
        self._used.add(id(selected))
        return selected

    def _find(self, name: str) -> Rule | Table:
        if name[0] == "%":
            name = f"{self._label}_{name[1:]}"
        elif name[0] == "!":
            name = f"{_OPPOSITE[self._label]}_{name[1:]}"
        return self._grammar[name]

    def _draw(self, table: Table) -> Record:
        rows = table.on(self._side)
        return Record(table, rows[self.pick(len(rows))])

    def _cell(self, record: Record, column: str) -> str:
        if column not in record.texts:
            text = self._expand(record.row[column], record.scope, record)
            record.texts[column] = _mark(text, record.table.kinds[column])
        return record.texts[column]

    def _number(self, number: Number) -> str:
        """Draw a number; wide ranges favor small values, as amounts and counts do."""
        share = self._random()
        if number.high > 50 * max(number.low, 1):
            share *= share
        steps = (number.high - number.low) // number.step
        value = number.low + number.step * int(share * (steps + 1))
        if number.decimals:
            whole, rest = divmod(value, 10**number.decimals)
            return f"{whole}.{rest:0{number.decimals}d}"
        return f"{value:,}" if number.grouped else str(value)


def _mark(text: str, kind: str) -> str:
    return f"{_OPEN[kind]}{text}{_CLOSE}" if kind else text


def capitalize(marked: str) -> str:
    """Put spaces and sentence capitals right, in any language."""
    marked = "^" + _SPACE_BEFORE.sub("", " ".join(marked.split()))  # its start is a sentence's
    return _START.sub(lambda m: m[0][:-1] + m[0][-1].upper(), marked).replace("^", "")


def polish(marked: str) -> str:
    """Put spaces and capitals right, and choose between "a" and "an"."""
    marked = capitalize(marked)
    return _ARTICLE.sub(lambda m: m[1] + ("n " if takes_an(m[2]) else " "), marked)


def tokenize(marked: str) -> str:
    """Lower the case and set punctuation and clitics apart, as the review corpora do."""
    marked = " ".join(_APART.split(marked.lower()))
    marked = _CLITIC.sub(lambda m: " " + m[0], marked)
    return " ".join(marked.split())


def unmark(marked: str) -> tuple[str, tuple[Entity, ...]]:
    """Split marked text into plain text and the outermost entities in it."""
    pieces: list[str] = []
    entities: list[Entity] = []
    opened: list[tuple[int, str]] = []
    position = 0
    for piece in _MARK.split(marked):
        if piece in _KIND:
            opened.append((position, _KIND[piece]))
        elif piece == _CLOSE:
            start, kind = opened.pop()
            if not opened:
                entities.append(Entity(start, position, kind))
        else:
            pieces.append(piece)
            position += len(piece)
    return "".join(pieces), tuple(entities)
