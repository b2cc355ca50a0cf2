"""`leakboard list` and `leakboard describe`: what there is, in a line each or in full."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from benchmark.cli.options import Csv, Json, MoreSubmissions
from benchmark.errors import unknown_name

PLURALS = ("tasks", "attacks", "defenses", "suites", "metrics", "models")


def list_(
    what: Annotated[str, typer.Argument(help=", ".join(PLURALS))],
    as_json: Json = False,
    as_csv: Csv = False,
    submissions: MoreSubmissions = None,
) -> None:
    """List what there is, one line an item.

    `leakboard describe NAME` says everything about one of them.
    """
    from benchmark.cli import listing, text
    from benchmark.cli.output import emit, output_format
    from benchmark.cli.session import find_catalog, name_broken

    form = output_format(as_json, as_csv)
    if what not in PLURALS:
        raise unknown_name("list", what, PLURALS)
    kind = what.removesuffix("s")
    listed = listing.collect(kind, find_catalog)
    broken = [vars(item) for item in listed.broken]
    whole = {what: listed.items} | ({"broken": broken} if broken else {})
    rows = [(str(i["name"]), *listing.short_columns(kind, i)) for i in listed.items]
    emit(listed.items, form, lambda: text.aligned(rows), whole)
    if form == "text" and sys.stdout.isatty():
        print(f"`leakboard describe NAME` says everything about one of these {len(rows)} {what}.")
    if form != "json":
        name_broken(listed.broken)


def describe(
    name: Annotated[str, typer.Argument(help="A name, or KIND:NAME such as attack:dager.")],
    as_json: Json = False,
    submissions: MoreSubmissions = None,
) -> None:
    """Tell everything about one thing.

    That is a task, an attack, a defense, a suite, a metric or a model. Where several things have
    the name, put the kind in front, as in attack:dager.
    """
    from benchmark.cli import describing
    from benchmark.cli.output import emit
    from benchmark.cli.session import find_catalog

    item = describing.find(name, find_catalog)
    emit([item], "json" if as_json else "text", lambda: describing.lines(item), item)
