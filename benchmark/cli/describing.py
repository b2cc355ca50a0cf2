"""Finds one thing by its name, whatever kind it is, and lays out everything known about it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmark.cli import text
from benchmark.cli.listing import KINDS, Find, Item, collect
from benchmark.errors import UserError
from benchmark.suites import SEEN

LABELS = {"grants": "an attack may be told", "reference": "file", "seen": "the model has seen"}
MEANINGS: Mapping[str, Mapping[str, str]] = {"seen": {str(k): v for k, v in SEEN.items()}}
HIDDEN = ("name", "summary", "kind", "parts")

MOST_TASKS = 6
"""Tasks that a line of a suite's plan names; more are counted."""


@dataclass(frozen=True)
class Match:
    """A thing that a name may mean."""

    kind: str
    item: Item

    @property
    def full_name(self) -> str:
        """The name that means nothing else: with its kind in front."""
        return f"{self.kind}:{self.item['name']}"


def find(name: str, catalog: Find) -> Item:
    """Everything about the one thing that a name means, with its `kind`.

    Raises:
        UserError: nothing has the name, several things have it, or what has it is broken.
    """
    prefix, _, rest = name.partition(":")
    kinds, wanted = ((prefix,), rest) if prefix in KINDS else (_possible_kinds(name), name)
    known: list[str] = []
    matches: list[Match] = []
    for kind in kinds:
        listed = collect(kind, catalog)
        for item in listed.items:
            names = _names(kind, item)
            known += names
            matches += [Match(kind, item)] if wanted in names else []
        for broken in listed.broken:
            if wanted in (broken.where, _stem(broken.where)):
                raise UserError(f"The {broken.kind} in {broken.where} is broken: {broken.reason}.")
    return _only(wanted, kinds, matches, known)


def _possible_kinds(name: str) -> Sequence[str]:
    """The kinds that a name can be of by its form; a slash is in names of tasks alone."""
    return ("task",) if "/" in name else KINDS


def _names(kind: str, item: Item) -> list[str]:
    """What an item answers to: its name, short forms of it, and the names of its variants."""
    name = str(item["name"])
    if kind == "task":
        return [name, name.partition("/")[2]]
    if kind == "model":
        return [name, name.partition(":")[2]]
    return [name, *item.get("variants", ())]


def _stem(where: str) -> str:
    return where.rpartition("/")[2].removesuffix(".py")


def _complete(kind: str, item: Item) -> Item:
    """All fields with the kind in front; a metric's own `kind` is what it measures."""
    measures = {"measures": item["kind"]} if kind == "metric" else {}
    return {"kind": kind} | measures | {key: item[key] for key in item if key != "kind"}


def _only(
    wanted: str, kinds: Sequence[str], matches: Sequence[Match], known: Iterable[str]
) -> Item:
    if len(matches) == 1:
        return _complete(matches[0].kind, matches[0].item)
    if matches:
        choices = " or ".join(match.full_name for match in matches)
        raise UserError(f"{wanted!r} means several things; write {choices}.")
    close = difflib.get_close_matches(wanted, set(known), n=3, cutoff=0.5)
    lists = ", ".join(f"`leakboard list {kind}s`" for kind in kinds)
    hint = f"did you mean {' or '.join(close)}?" if close else f"see {lists}."
    what = f"There is no {kinds[0]}" if len(kinds) == 1 else "Nothing is"
    raise UserError(f"{what} called {wanted!r}; {hint}")


# ----------------------------------------------------------------------------------------- layout


def lines(item: Item) -> Iterator[str]:
    """Everything about one thing, as text that fits the terminal."""
    kind = str(item["kind"])
    yield f"{kind} {text.printable(str(item['name']))}"
    if item.get("summary"):
        yield from text.wrapped(str(item["summary"]), "  ")
    blocks = BLOCKS.get(kind, {})
    plain = {k: v for k, v in item.items() if k not in HIDDEN and k not in blocks}
    plain = {k: MEANINGS[k].get(str(v), v) if k in MEANINGS else v for k, v in plain.items()}
    yield from _fields({LABELS.get(k, k.replace("_", " ")): v for k, v in plain.items()})
    for key, block in blocks.items():
        if item.get(key):
            yield f"{key}:"
            yield from block(item[key])


def _fields(fields: Mapping[str, object]) -> Iterator[str]:
    """A label and its value a line; nothing is said of what is empty."""
    said = {label: words for label, value in fields.items() if (words := _words(value))}
    size = max(map(len, said), default=0)
    for label, words in said.items():
        yield from text.wrapped(words, f"{label.ljust(size)}  ", " " * (size + 2))


def _words(value: object) -> str:
    """A value as people read it; settings as `key=value`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_setting(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _setting(value: object) -> str:
    """A value as the command line takes it, behind `key=`."""
    return str(value).lower() if isinstance(value, bool) else _words(value)


def _parameters(parameters: Mapping[str, Item]) -> Iterator[str]:
    """Each parameter with its default, meaning and bounds."""
    for name, rule in parameters.items():
        default = f"{name}={_setting(rule['default'])}{_bounds(rule)}"
        yield from text.wrapped(default, "  ", "      ")
        yield from text.wrapped(str(rule["meaning"]), "      ")


def _bounds(rule: Item) -> str:
    """What else the value may be, behind the default."""
    low, high = rule["low"], rule["high"]
    if rule["choices"]:
        return f", one of {_words(rule['choices'])}"
    if low is not None and high is not None:
        return f", between {_words(low)} and {_words(high)}"
    return f", at least {_words(low)}" if low is not None else ""


def _told(told: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What an attack is handed where it is granted; a variant is named where that differs."""
    usual = next(iter(told.values()))
    for name, facts in told.items():
        if name == next(iter(told)) or facts != usual:
            yield from text.wrapped(f"{name}: {_words(facts) or 'nothing'}", "  ", "      ")


def _variants(variants: Mapping[str, Item]) -> Iterator[str]:
    for name, settings in variants.items():
        yield f"  {name}"
        yield from text.wrapped(_words(settings), "      ")


def _tasks(names: Sequence[str]) -> Iterator[str]:
    yield from text.wrapped(", ".join(name.rpartition("/")[2] for name in names), "  ")


def _plan(pairings: Sequence[Item]) -> Iterator[str]:
    """The plan by attack and defense, each with its tasks, counted where there are many."""
    by_pair: dict[tuple[str, str], list[str]] = {}
    for line in pairings:
        task = line["task"].rpartition("/")[2]
        by_pair.setdefault((line["attack"], line["defense"]), []).append(task)
    for (attack, defense), tasks in by_pair.items():
        where = ", ".join(tasks) if len(tasks) <= MOST_TASKS else f"{len(tasks)} tasks"
        yield from text.wrapped(f"{attack} under {defense}: {where}", "  ", "      ")
    yield "  (`leakboard run --suite NAME --dry-run` names every cell)"


def _trainings(pairings: Sequence[Item]) -> Iterator[str]:
    for line in pairings:
        yield f"  {line['task']} with {line['defense']}"


def _scores(scores: Sequence[tuple[str, str, float, float]]) -> Iterator[str]:
    for corpus, metric, trained, untrained in scores:
        yield f"  {metric} on {corpus}: {trained:.4g}, untrained {untrained:.4g}"


Block = Callable[..., Iterator[str]]
SUBMISSION: Mapping[str, Block] = {"parameters": _parameters, "variants": _variants}
BLOCKS: Mapping[str, Mapping[str, Block]] = {
    "attack": {"told": _told, **SUBMISSION},
    "defense": SUBMISSION,
    "suite": {"tasks": _tasks, "plan": _plan, "utility": _trainings},
    "model": {"scores": _scores},
}
"""Values that take lines of their own, by kind and field."""
