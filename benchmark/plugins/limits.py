"""How a submission may describe itself: names that make file names, texts and values within bounds.

The harness checks this itself, since a description comes out of a process with foreign code. One
that goes too far is listed as broken, with a sentence for its author.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from benchmark.errors import UserError
from benchmark.plugins.description import Description
from benchmark.spec import Knowledge, Parameter, Scalar

MOST_BYTES = 100_000
MOST_ITEMS = 100
LONGEST_TEXT = 500
LONGEST_VALUE = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def typed_value(owner: str, key: str, text: str, rule: Parameter) -> Scalar:
    """The value that a `key=value` string stands for; refuses what the parameter does not take."""
    kind = type(rule.default)
    try:
        if kind is bool:
            value: Scalar = {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        else:
            value = kind(text)
    except (ValueError, KeyError):
        raise UserError(f"{owner}: {key}={text} is not of type {kind.__name__}.") from None
    low, high = rule.low, rule.high
    too_low = low is not None and not float(value) >= low
    too_high = high is not None and not float(value) <= high
    if too_low or too_high or (isinstance(value, float) and not math.isfinite(value)):
        bounds = f"between {'-∞' if low is None else low} and {'∞' if high is None else high}"
        raise UserError(f"{owner}: {key}={text} is out of range; it must lie {bounds}.")
    if rule.choices and value not in rule.choices:
        raise UserError(f"{owner}: {key}={text} is not one of {', '.join(map(str, rule.choices))}.")
    return value


def description_problem(found: Description) -> str | None:
    """What is wrong with a description, in one sentence; None where nothing is."""
    return next(description_problems(found), None)


def description_problems(found: Description) -> Iterator[str]:
    """Everything that is wrong with a description, a sentence each."""
    if len(found.model_dump_json()) > MOST_BYTES:
        yield f"it describes itself in more than {MOST_BYTES:,} bytes"
    yield from _name_problems("name", found.name)
    yield from _text_problems("summary", found.summary)
    yield from _text_problems("paper", found.paper)
    for what in ("parameters", "variants", "observes", "needs", "uses", "objectives", "overrides"):
        if len(getattr(found, what)) > MOST_ITEMS:
            yield f"it has more than {MOST_ITEMS} {what}"
    for name in (*found.observes, *found.objectives, *found.overrides):
        yield from _name_problems("requirement", name)
    for name in (*found.needs, *found.uses):
        if name not in list(Knowledge):
            known = ", ".join(Knowledge)
            yield f"it asks for the knowledge {_shown(name)}, which is none of {known}"
    for name, parameter in found.parameters.items():
        yield from _name_problems("parameter", name)
        yield from _parameter_problems(name, parameter)
    for name, settings in found.variants.items():
        yield from _name_problems("variant", name)
        yield from _variant_problems(found, name, settings)


def _name_problems(what: str, name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield (
            f"its {what} {_shown(name)} is not made of up to 64 ASCII letters, digits, `_`, `.` "
            "and `-`, the first a letter or digit"
        )


def _text_problems(what: str, text: str) -> Iterator[str]:
    if len(text) > LONGEST_TEXT:
        yield f"its {what} is longer than {LONGEST_TEXT} characters"
    if not text.isprintable():
        yield f"its {what} holds line breaks or other control characters"


def _parameter_problems(name: str, rule: Parameter) -> Iterator[str]:
    yield from _text_problems(f"explanation of the parameter {name}", rule.meaning)
    bounds = [bound for bound in (rule.low, rule.high) if bound is not None]
    if not all(map(math.isfinite, bounds)):
        yield f"its parameter {name} has a bound that is not finite"
    if bounds and (isinstance(rule.default, str | bool)):
        yield f"its parameter {name} has bounds, but no number as its default"
    values = (rule.default, *rule.choices, *rule.grid)
    if len(values) > MOST_ITEMS or any(len(str(value)) > LONGEST_VALUE for value in values):
        yield f"its parameter {name} has too many or too long values"
    if any(type(value) is not type(rule.default) for value in rule.choices):
        yield f"its parameter {name} has choices of another type than its default"
    yield from _value_problems(f"parameter {name}", name, rule.default, rule)
    if rule.without is not None:
        yield from _value_problems(f"parameter {name}", name, rule.without, rule)


def _variant_problems(
    found: Description, variant: str, settings: Mapping[str, Scalar]
) -> Iterator[str]:
    if not variant.startswith(f"{found.name}_"):
        yield f"its variant {_shown(variant)} does not begin with its name"
    for key, value in settings.items():
        if key not in found.parameters:
            yield f"its variant {_shown(variant)} sets {_shown(key)}, which is no parameter"
        else:
            yield from _value_problems(f"variant {variant}", key, value, found.parameters[key])


def _value_problems(what: str, key: str, value: Scalar, rule: Parameter) -> Iterator[str]:
    """A value must be one that the command line would take, since it becomes a name like those."""
    try:
        typed_value(f"its {what}", key, str(value)[: LONGEST_VALUE + 1], rule)
    except UserError as error:
        yield str(error).rstrip(".")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}…")


def taken_name(names: Sequence[str], owners: Mapping[str, str]) -> str | None:
    """The sentence about a name that is another's already, whatever its case; None where none is.

    Names of submissions and of their variants are one kind of name: a result is filed by it.
    """
    known = {name.casefold(): owner for name, owner in owners.items()}
    for name in names:
        if owner := known.get(name.casefold()):
            return f"the name {name!r} is taken by {owner} already"
    return None
