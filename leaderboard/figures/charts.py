"""Every kind of chart as a function from view data to a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from benchmark.metrics.table import METRICS
from leaderboard.figures.draw import Figure, figure, specification
from leaderboard.figures.theme import DEEP, INK, MOST_SERIES, SOFT, scales
from leaderboard.render.formatting import number
from leaderboard.views.heat import HeatMap
from leaderboard.views.series import SeriesPoint, Strength
from leaderboard.views.trade_off import Point, TradeOff

# ----------------------------------------------------------------------------- privacy and utility


def trade_off(
    each: TradeOff, known: Mapping[str, Strength], name: str, wide: bool = True
) -> Figure:
    """Leak against utility: strengths of one defense joined, the Pareto front as steps."""
    import altair as alt

    utility, leak = METRICS[each.utility_metric], METRICS[each.leak_metric]
    rows = [_point_row(point, known.get(point.defense)) for point in each.points]
    shown = [{**row, "label": label} for row, label in zip(rows, sparse_labels(rows), strict=True)]
    front = [{"x": p.utility.mean, "y": p.leak.value.mean} for p in each.front]
    lower = utility.direction == "lower"
    log = each.utility_metric == "perplexity"  # whose round numbers are powers of ten, far apart
    scale = alt.Scale(
        type="log" if log else "linear", reverse=lower, zero=False, nice=not log, padding=24
    )
    x = alt.X(
        "utility:Q",
        scale=scale,
        title=f"{utility.title}: better to the right",
        axis=alt.Axis(tickCount=7),
    )
    y = alt.Y(
        "leak:Q",
        scale=alt.Scale(domain=[0, 1.04], nice=False),
        title=f"leak, {leak.title}: less is better",
        axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
    )
    color, shape = scales(list(dict.fromkeys(str(row["kind"]) for row in rows)))
    paint = alt.Color("kind:N", scale=alt.Scale(**color), title="defense")
    base = alt.Chart(alt.InlineData(values=shown))
    layers = [
        alt.Chart(alt.InlineData(values=front), name="front")
        .mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.5, interpolate="step-before")
        .encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q"), order=alt.Order("y:Q")),
        base.mark_rule(opacity=0.55).encode(x=x, y="leak_low:Q", y2="leak_high:Q", color=paint),
        base.mark_rule(opacity=0.55).encode(
            x="utility_low:Q", x2="utility_high:Q", y=y, color=paint
        ),
        base.transform_filter("datum.strength != null")
        .mark_line(opacity=0.7)
        .encode(x=x, y=y, color=paint, order=alt.Order("strength:Q")),
        base.mark_point(size=110, strokeWidth=2).encode(
            x=x,
            y=y,
            color=paint,
            shape=alt.Shape("kind:N", scale=alt.Scale(**shape), title="defense"),
            fill=alt.condition("datum.complete", paint, alt.value("transparent")),
        ),
        base.properties(name="labels")
        .mark_text(dx=9, dy=-9, align="left", fontSize=12, color=INK)
        .encode(x=x, y=y, text="label:N"),
    ]
    width, height = (800, 430) if wide else (400, 300)
    chart = alt.layer(*layers).properties(width=width, height=height)
    short = each.task.name.split("/", 1)[-1]
    title = (
        f"Leak ({leak.title}) against utility ({utility.title}) of {len(rows)} defenses on {short}"
    )
    return figure(name, title, specification(chart), rows)


def sparse_labels(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The labels of points, empty where one would cover that of a point before it."""
    places = [(cast(float, row["utility"]), cast(float, row["leak"])) for row in rows]
    span = max(x for x, _ in places) - min(x for x, _ in places) or 1.0
    taken: list[tuple[float, float]] = []
    labels = []
    for row, (x, y) in zip(rows, places, strict=True):
        covered = any(abs(x - a) < 0.16 * span and abs(y - b) < 0.05 for a, b in taken)
        labels.append("" if covered else str(row["label"]))
        if labels[-1]:
            taken.append((x, y))
    return labels


def _point_row(point: Point, strength: Strength | None) -> dict[str, object]:
    value = strength.value if strength and strength.parameter else None
    traffic = point.cost.metrics.get("bytes_up")
    return {
        "defense": point.defense,
        "kind": strength.kind if strength else point.defense,
        "strength": value,
        "label": f"{strength.parameter} {value:g}" if strength and strength.parameter else "",
        "leak": point.leak.value.mean,
        "leak_low": point.leak.value.low,
        "leak_high": point.leak.value.high,
        "attack": point.leak.attack,
        "complete": point.complete,
        "pareto_front": point.front,
        "utility": point.utility.mean,
        "utility_low": point.utility.low,
        "utility_high": point.utility.high,
        "slowdown": point.slowdown,
        "bytes_up": traffic.mean if traffic else None,
        "epsilon": point.cost.epsilon,
    }


# --------------------------------------------------------------------------------------- heat map


def heat_map(each: HeatMap, name: str) -> Figure:
    """Attacks as rows, defenses as columns; the fuller the color, the more was read."""
    import altair as alt

    rows: list[dict[str, object]] = [
        {
            "attack": cell.attack,
            "defense": cell.defense,
            "mean": cell.mean,
            "label": number(cell.mean)[:5] if cell.mean is not None else cell.label,
        }
        for cell in each.cells
    ]
    values = [{**row, "depth": depth(cast("float | None", row["mean"]))} for row in rows]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(
            "defense:N",
            sort=list(each.defenses),
            title=None,
            axis=alt.Axis(orient="top", labelAngle=-38, domain=False, ticks=False),
        ),
        y=alt.Y(
            "attack:N",
            sort=list(each.attacks),
            title=None,
            axis=alt.Axis(domain=False, ticks=False),
        ),
    )
    squares = base.mark_rect(color=DEEP, stroke=SOFT, strokeOpacity=0.25).encode(
        fillOpacity=alt.FillOpacity("depth:Q", scale=None)
    )
    pale = base.properties(name="labels").transform_filter(
        "datum.depth <= 0.7 && datum.mean != null"
    )
    deep = base.properties(name="onfill").transform_filter("datum.depth > 0.7")
    gray = base.properties(name="quiet").transform_filter("datum.mean == null")
    chart = alt.layer(
        squares,
        pale.mark_text(fontSize=12, color=INK).encode(text="label:N"),
        deep.mark_text(fontSize=12, color="white").encode(text="label:N"),
        gray.mark_text(fontSize=9, color=SOFT).encode(text="label:N"),
    ).properties(
        width=alt.Step(62),
        height=alt.Step(27),
        padding={"left": 40, "right": 110, "top": 40, "bottom": 5},
    )
    metric, short = METRICS[each.metric].title, each.task.split("/", 1)[-1]
    title = (
        f"{metric} of {len(each.attacks)} attacks under {len(each.defenses)} defenses on {short}"
    )
    return figure(name, title, specification(chart), rows)


def depth(mean: float | None) -> float:
    """How opaque a square is; no depth at which neither black nor white text is readable."""
    if mean is None:
        return 0.0
    share = min(max(mean, 0.0), 1.0)
    return round(share if share <= 0.7 else 0.8 + (share - 0.7) * 2 / 3, 4)


# --------------------------------------------------------------------------------- small multiples


def multiples(
    points: Sequence[SeriesPoint], name: str, title: str, axis: str, kind: str = "log"
) -> Figure:
    """One small plot for each panel, a line for each series, with intervals.

    `kind` is `log`, `linear` or `ordinal`, where the labels stand in the order of their places.
    """
    import altair as alt

    shown = strongest_series(points)
    rows = [_series_row(point) for point in points if point.series in shown]
    color, shape = scales(shown)
    places = list(dict.fromkeys(p.label for p in sorted(points, key=lambda p: p.x)))
    if kind == "ordinal":
        x = alt.X("label:O", sort=places, title=axis, axis=alt.Axis(labelAngle=-30))
    else:
        ticks = sorted({point.x for point in points})
        x = alt.X(
            "x:Q",
            title=axis,
            scale=alt.Scale(type=cast(Any, kind), nice=False),
            axis=alt.Axis(values=ticks, format="~g", labelOverlap=True, grid=False),
        )
    y = alt.Y("mean:Q", scale=alt.Scale(domain=[0, 1]), title=METRICS[points[0].metric].title)
    paint = alt.Color(
        "series:N",
        scale=alt.Scale(**color),
        title=None,
        legend=alt.Legend(orient="bottom", columns=4, labelLimit=220),
    )
    base = alt.Chart().encode(x=x, color=paint)
    layer = alt.layer(
        base.mark_rule(opacity=0.55).encode(y="low:Q", y2="high:Q"),
        base.mark_line().encode(
            y=y,
            strokeDash=alt.condition("datum.baseline", alt.value([3, 3]), alt.value([1, 0])),
            detail="series:N",
        ),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=y, shape=alt.Shape("series:N", scale=alt.Scale(**shape), title=None)
        ),
        data=alt.InlineData(values=rows),
    )
    panels = list(dict.fromkeys(point.panel for point in points))
    if len(panels) > 1:
        sized = layer.properties(width=230, height=170)
        chart = sized.facet(facet=alt.Facet("panel:N", title=None), columns=min(3, len(panels)))
    else:
        chart = layer.properties(width=400, height=230)
    return figure(name, title, specification(chart), rows)


def strongest_series(points: Sequence[SeriesPoint]) -> list[str]:
    """As many series as there are colors: those that reach most, and the best baseline."""
    best: dict[str, float] = {}
    for point in points:
        best[point.series] = max(best.get(point.series, 0.0), point.value.mean)
    guesses = {point.series for point in points if point.baseline}
    order = sorted(best, key=lambda name: (-best[name], name))
    kept = [name for name in order if name not in guesses][: MOST_SERIES - 1]
    return [*kept, *[name for name in order if name in guesses][: MOST_SERIES - len(kept)]]


def _series_row(point: SeriesPoint) -> dict[str, object]:
    return {
        "panel": point.panel,
        "series": point.series,
        "x": point.x,
        "label": point.label,
        "mean": point.value.mean,
        "low": point.value.low,
        "high": point.value.high,
        "n": point.value.n,
        "metric": point.metric,
        "task": point.task,
        "attack": point.attack,
        "baseline": point.baseline,
    }
