"""The little template language in which the built-in corpora are written.

plain text            itself
{rule}                an alternative of a rule, or a row of a table (its first column)
{table.column}        one column of a random row
{p:table.column}      the same, and remembers the row as `p`; later `{p.other_column}`
{v:rule}              expands the rule and remembers its text; later `{v}`
{.column}             inside a table: another column of the same row
{%rule}  {!rule}      the rule of the current label (`good_rule`), or of the opposite one
{noun+s}              inflected: +s, +ed, +ing, +ly
{#1-99} {#1.0-9.9}    a number; {#1,000-9,000} groups thousands; {#50-900/50} rounds to 50
{##4}                 exactly four digits
[text]                present half of the time
<one|two|three>       one of them
^                     the next letter becomes a capital, as at the start of a sentence
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A reference to a rule, a table or something remembered."""

    name: str
    column: str
    remember: str
    inflection: str


@dataclass(frozen=True)
class Number:
    """A number drawn from a range, in units of `10 ** -decimals`."""

    low: int
    high: int
    step: int
    decimals: int
    grouped: bool


@dataclass(frozen=True)
class Digits:
    """A fixed count of digits, the first of which is not zero."""

    count: int


@dataclass(frozen=True)
class Choice:
    """One of several templates, all equally likely."""

    options: tuple["Template", ...]


Node = str | Slot | Number | Digits | Choice
Template = tuple[Node, ...]

_SLOT = re.compile(r"(?:(\w+):)?([%!]?\w*)(?:\.(\w+))?(?:\+(\w+))?")
_NUMBER = re.compile(r"#([\d.,]+)-([\d.,]+)(?:/([\d,]+))?")
_TOKEN = re.compile(r"\{[^{}]*\}|[\[\]<>|]|[^{}\[\]<>|]+")


def parse(text: str) -> Template:
    """Turn one line of a grammar file into a template."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ValueError(f"unbalanced braces in template: {text!r}")
    options, rest = _options(tokens, 0, "")
    if len(options) != 1 or rest != len(tokens):
        raise ValueError(f"unbalanced brackets in template: {text!r}")
    return options[0]


def _options(tokens: list[str], at: int, closer: str) -> tuple[list[Template], int]:
    """Read `|`-separated templates until `closer`; return them and where reading stopped."""
    options: list[list[Node]] = [[]]
    while at < len(tokens) and tokens[at] not in ("]", ">"):
        token = tokens[at]
        at += 1
        if token in ("[", "<"):
            inner, at = _options(tokens, at, "]" if token == "[" else ">")
            if token == "[":
                inner = [(), *inner]
            options[-1].append(Choice(tuple(inner)))
        elif token == "|":
            options.append([])
        else:
            options[-1].append(_leaf(token))
    if closer and (at >= len(tokens) or tokens[at] != closer):
        raise ValueError(f"missing {closer!r} in template: {''.join(tokens)!r}")
    return [tuple(option) for option in options], at + (1 if closer else 0)


def _leaf(token: str) -> Node:
    """Read plain text or whatever stands between braces."""
    if not token.startswith("{"):
        return token
    body = token[1:-1]
    if body.startswith("##"):
        return Digits(int(body[2:]))
    if number := _NUMBER.fullmatch(body):
        return _number(number[1], number[2], int((number[3] or "1").replace(",", "")))
    slot = _SLOT.fullmatch(body)
    if slot is None:
        raise ValueError(f"cannot read the slot {token}")
    return Slot(slot[2], slot[3] or "", slot[1] or "", slot[4] or "")


def _number(low: str, high: str, step: int) -> Number:
    """Read a range; a comma in it asks for grouped thousands, a point for decimals."""
    decimals = len(low.partition(".")[2])
    bounds = [int(bound.replace(",", "").replace(".", "")) for bound in (low, high)]
    return Number(bounds[0], bounds[1], step, decimals, "," in low + high)
