"""Everything there is to run or to read about: tasks, submissions, suites, metrics, models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark.errors import UserError
from benchmark.execution.describing import submissions as submissions
from benchmark.plugins.catalog import Catalog, Entry
from benchmark.plugins.registry import (
    Broken,
    Kind,
    SiteContent,
    all_tasks,
    find_suites,
    model_catalog,
)
from benchmark.suites import Pairing

Find = Callable[[Kind], Catalog]
Item = Mapping[str, Any]


@dataclass(frozen=True)
class Listing:
    """All items of one kind as data, and what of that kind is broken."""

    items: Sequence[Item]
    broken: Sequence[Broken] = ()


def collect(kind: str, find: Find) -> Listing:
    """Everything of one kind: `task`, `attack`, `defense`, `suite`, `metric` or `model`."""
    return COLLECT[kind](find)


def short_columns(kind: str, item: Item) -> tuple[str, ...]:
    """The one or two things worth a column of `leakboard list` beside the name."""
    if kind == "task":
        return (item["summary"],)
    if kind == "suite":
        return f"{len(item['tasks'])} tasks", item["summary"]
    if kind == "metric":
        return item["direction"], item["meaning"]
    if kind == "model":
        return f"{item['parameters'] / 1e6:.1f}M", item["checkpoint"] or item["architecture"]
    if kind == "attack":
        told = ", ".join(item["told"][item["name"]]) or "nothing"
        return f"told: {told}", item["summary"]
    variants = len(item["variants"])
    return f"{variants} variant{'' if variants == 1 else 's'}" if variants else "", item["summary"]


def site_content(attacks: Catalog, defenses: Catalog) -> SiteContent:
    """What the pages tell beside the results."""
    return SiteContent(
        suites=tuple(find_suites()[0].values()),
        entries=(*attacks.entries.values(), *defenses.entries.values()),
        broken=(*attacks.broken, *defenses.broken, *broken_suites()),
    )


def _submission(entry: Entry) -> Item:
    parameters = {
        name: asdict(parameter) | {"needs": sorted(parameter.needs), "uses": sorted(parameter.uses)}
        for name, parameter in entry.parameters.items()
    }
    named = {entry.name: {}, **entry.variants} if entry.kind == "attack" else {}
    told = {name: sorted(entry.told(settings)) for name, settings in named.items()}
    return vars(entry) | {"parameters": parameters, "told": told}


def found_or_broken(find: Find) -> tuple[Catalog, Catalog]:
    """Attacks and defenses; where no worker starts to describe them, that is what is broken."""
    return _found_or_broken(find, "attack"), _found_or_broken(find, "defense")


def _found_or_broken(find: Find, kind: Kind) -> Catalog:
    try:
        return find(kind)
    except UserError as error:
        return Catalog(broken=[Broken(kind, f"(all {kind}s)", str(error).rstrip("."))])


def broken_suites() -> Sequence[Broken]:
    """Suite files that could not be read."""
    return find_suites()[1]


def _tasks(_: Find) -> Listing:
    items = [asdict(task) | {"grants": sorted(task.grants)} for task in all_tasks().values()]
    return Listing(items, broken_suites())


def _suites(_: Find) -> Listing:
    items = [
        {
            "name": suite.name,
            "summary": suite.summary,
            "tasks": [task.name for task in suite.tasks],
            "plan": _pairings(suite.plan),
            "utility": _pairings(suite.utility),
        }
        for suite in find_suites()[0].values()
    ]
    return Listing(items, broken_suites())


def _pairings(lines: Iterable[Pairing]) -> list[dict[str, str]]:
    return [asdict(line) for line in lines]


def _metrics(_: Find) -> Listing:
    from benchmark.metrics.table import METRICS

    return Listing([asdict(metric) for metric in METRICS.values()])


def _models(_: Find) -> Listing:
    return Listing([asdict(row) for row in model_catalog()])


def _submissions(kind: Kind) -> Callable[[Find], Listing]:
    def listed(find: Find) -> Listing:
        catalog = find(kind)
        return Listing([_submission(entry) for entry in catalog.entries.values()], catalog.broken)

    return listed


COLLECT: Mapping[str, Callable[[Find], Listing]] = {
    "task": _tasks,
    "attack": _submissions("attack"),
    "defense": _submissions("defense"),
    "suite": _suites,
    "metric": _metrics,
    "model": _models,
}
KINDS = tuple(COLLECT)
