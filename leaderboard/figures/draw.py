"""From a Vega-Lite specification to clean SVG, the same bytes for the same data."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from xml.etree import ElementTree

from leaderboard.figures.theme import config

SVG = "http://www.w3.org/2000/svg"
TAGS = re.compile("svg|g|path|line|rect|circle|text|tspan|defs|clipPath|linearGradient|stop")
ATTRIBUTES = re.compile(
    "class|clip-path|clip-rule|[cd][xy]|d|fill|fill-(opacity|rule)|font-(family|size|style|weight)"
    "|height|id|offset|opacity|r[xy]?|stop-color|stroke"
    "|stroke-(dash(array|offset)|line(cap|join)|miterlimit|opacity|width)"
    "|text-anchor|transform|version|viewBox|width|[xy][12]?"
)
"""Nothing that runs, links or loads; labels of other people stay text."""

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Figure:
    """A drawn figure with the numbers behind it."""

    name: str
    """Stem of its files, below `figures/`."""
    title: str
    """What it shows, for those who do not see it."""
    svg: str
    rows: Rows

    @property
    def csv(self) -> str:
        """The numbers as a table."""
        return to_csv(self.rows)


def specification(chart: Any) -> Mapping[str, Any]:
    """A chart of altair as the specification that it stands for.

    Its parts were checked as they were made; checking the whole would take as long as drawing it.
    """
    return cast(Mapping[str, Any], chart.to_dict(validate=False))


def figure(name: str, title: str, specification: Mapping[str, Any], rows: Rows) -> Figure:
    """Draw a specification that leaves the common settings out."""
    whole = {**specification, "config": config()}
    return Figure(name, title, drawn(json.dumps(whole, sort_keys=True), name, title), rows)


@lru_cache(maxsize=512)
def drawn(specification: str, name: str, title: str) -> str:
    """The SVG of a specification as JSON; a repeated rendering draws only what has changed."""
    import vl_convert

    return clean(vl_convert.vegalite_to_svg(specification), name, title)


def clean(svg: str, name: str, title: str) -> str:
    """Only shapes and text, with ids of its own, so that many stand on one page."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(svg)
    _filter(root)
    _rename_ids(root, re.sub(r"[^a-z0-9-]+", "-", name.lower()))
    root.set("role", "img")
    root.set("aria-label", title)
    return ElementTree.tostring(root, encoding="unicode")


def _filter(node: ElementTree.Element) -> None:
    for child in list(node):
        if not isinstance(child.tag, str) or not _known(child.tag):
            node.remove(child)
        else:
            _filter(child)
    for attribute in [name for name in node.attrib if not ATTRIBUTES.fullmatch(name)]:
        del node.attrib[attribute]


def _known(tag: str) -> bool:
    return bool(TAGS.fullmatch(tag.removeprefix(f"{{{SVG}}}")))


def _rename_ids(root: ElementTree.Element, stem: str) -> None:
    """Ids in the order of the drawing: the renderer counts them over its whole life."""
    names: dict[str, str] = {}
    for node in root.iter():
        if "id" in node.attrib:
            new = names.setdefault(node.attrib["id"], f"{stem}-{len(names)}")
            node.set("id", new)
    for node in root.iter():
        for attribute, value in node.attrib.items():
            if match := re.fullmatch(r"url\(#(.+)\)", value):
                node.set(attribute, f"url(#{names.get(match[1], stem)})")


def to_csv(rows: Rows) -> str:
    """Rows as CSV, the columns in the order of their first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([safe(row.get(name, "")) for name in columns] for row in rows)
    return stream.getvalue()


def safe(value: object) -> object:
    """Text that a spreadsheet would take for a formula gets a quote in front."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
