"""The report of an audit as one page, which loads nothing and runs nothing."""

from __future__ import annotations

from benchmark.auditing.report import ConditionFinding, Report
from benchmark.metrics.table import METRICS
from leaderboard.render.diff import compare, shown
from leaderboard.render.environment import asset, templates
from leaderboard.render.formatting import heat, number, size

STYLES = ("style.css", "audit.css")
EFFECTS = {
    "stops": "stops all attacks tried",
    "reduces": "helps in part",
    "none": "does not help",
    "": "",
}


def render(report: Report) -> str:
    """The page as text. Private and recovered words are other people's: all of it is escaped."""
    environment = templates()
    styles = " ".join(asset(environment, name).hash for name in STYLES)
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


def seconds(value: float | None) -> str:
    """Short times in milliseconds."""
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
