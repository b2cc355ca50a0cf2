"""The report of an audit as one page, which loads nothing and runs nothing."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmark.auditing.report import ConditionFinding, Report
from benchmark.metrics.table import METRICS
from leaderboard.render.diff import compare, shown
from leaderboard.render.formatting import heat, number
from leaderboard.render.pages import source_hash

STYLES = ("style.css", "audit.css")
EFFECTS = {
    "stops": "stops all attacks tried",
    "reduces": "helps in part",
    "none": "does not help",
    "": "",
}


def render(report: Report) -> str:
    """The page as text. Private and recovered words are other people's: all of it is escaped."""
    environment = Environment(
        loader=PackageLoader("leaderboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    styles = " ".join(source_hash(environment, name) for name in STYLES)
    return environment.get_template("audit.html").render(
        report=report,
        setup=report.setup,
        policy=f"default-src 'none'; style-src {styles}; img-src data:; base-uri 'none'; "
        "form-action 'none'",
        styles=STYLES,
        compare=compare,
        shown=shown,
        number=number,
        heat=heat,
        size=size,
        seconds=seconds,
        metrics=METRICS,
        qualities=_qualities(report.conditions),
        effects=EFFECTS,
    )


def _qualities(conditions: list[ConditionFinding]) -> list[str]:
    """Utility metrics that any condition has."""
    return list(dict.fromkeys(name for each in conditions for name in each.quality))


def size(count: float | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def seconds(value: float | None) -> str:
    """Short times in milliseconds."""
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
