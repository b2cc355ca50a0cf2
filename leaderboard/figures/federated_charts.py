"""Charts of the federated track: methods by traffic, leak and round, and what clients hold."""

from __future__ import annotations

from typing import Any

from leaderboard.figures.draw import Figure, figure, specification
from leaderboard.figures.theme import DEEP, SOFT, scales
from leaderboard.views.federated import FederatedTable, Partition


def federated(table: FederatedTable, name: str) -> Figure:
    """Accuracy of federated methods against what they send and against what they leak."""
    import altair as alt

    rows = [
        {
            "method": method.defense,
            "accuracy_local": method.metrics["accuracy_local"].mean,
            "accuracy_low": method.metrics["accuracy_local"].low,
            "accuracy_high": method.metrics["accuracy_local"].high,
            "bytes_up": method.metrics["bytes_up"].mean if "bytes_up" in method.metrics else None,
            "leak": method.worst.value.mean if method.worst else None,
            "private_leak": method.private.value.mean if method.private else None,
        }
        for method in table.methods
        if "accuracy_local" in method.metrics
    ]
    color, shape = scales([str(row["method"]) for row in rows])
    legend = alt.Legend(orient="bottom", columns=4, labelLimit=220)
    paint = alt.Color("method:N", scale=alt.Scale(**color), title=None, legend=legend)
    base = alt.Chart(alt.InlineData(values=rows)).encode(color=paint)

    def against(field: str, title: str, scale: Any) -> Any:
        x = alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5, format="~s"))
        y = alt.Y(
            "accuracy_local:Q",
            scale=alt.Scale(zero=False, padding=16),
            title="local accuracy" if field == known[0] else None,
        )
        kept = base.transform_filter(f"datum.{field} != null")
        marks = kept.mark_point(filled=True, size=110, opacity=1).encode(
            x=x,
            y=y,
            shape=alt.Shape("method:N", scale=alt.Scale(**shape), title=None, legend=legend),
        )
        rules = kept.mark_rule(opacity=0.55).encode(x=x, y="accuracy_low:Q", y2="accuracy_high:Q")
        return alt.layer(rules, marks).properties(width=260, height=230)

    share = alt.Scale(domain=[0, 1])
    panels = {
        "bytes_up": ("bytes that a client sends in a round", alt.Scale(type="symlog", zero=False)),
        "leak": ("token types leaked at worst", share),
        "private_leak": ("private tokens leaked at worst", share),
    }
    known = [field for field in panels if any(row[field] is not None for row in rows)]
    chart = alt.hconcat(*(against(field, *panels[field]) for field in known))
    chart = chart.resolve_scale(y="shared")
    short = table.task.split("/", 1)[-1]
    title = f"Local accuracy of {len(rows)} federated methods on {short}, against traffic and leak"
    return figure(name, title, specification(chart), rows)


def federated_curves(table: FederatedTable, name: str) -> Figure:
    """Validation accuracy of federated methods, round by round."""
    import altair as alt

    methods = [method for method in table.methods if method.curve]
    rows = [
        {"method": method.defense, "round": number, "accuracy": value}
        for method in methods
        for number, value in method.curve.items()
    ]
    color, shape = scales([method.defense for method in methods])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1, tickCount=6, grid=False)),
        y=alt.Y("accuracy:Q", scale=alt.Scale(domain=[0, 1]), title="validation accuracy"),
        color=alt.Color("method:N", scale=alt.Scale(**color), title=None),
    )
    marks = base.mark_point(filled=True, size=50, opacity=1).encode(
        shape=alt.Shape("method:N", scale=alt.Scale(**shape), title=None)
    )
    chart = alt.layer(base.mark_line(), marks).properties(width=560, height=230)
    short = table.task.split("/", 1)[-1]
    title = f"Validation accuracy of {len(methods)} federated methods on {short}, by round"
    return figure(name, title, specification(chart), rows)


def partition(each: Partition, name: str) -> Figure:
    """How many training rows each client has, above how they are spread over the labels."""
    import altair as alt

    rows = [
        {"client": client, "label": label, "rows": count}
        for client, own in enumerate(each.counts)
        for label, count in enumerate(own)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).properties(width=840)
    client = alt.X("client:O", title=None, axis=None)
    sizes = base.mark_bar(color=SOFT).encode(
        x=client, y=alt.Y("sum(rows):Q", title="rows", axis=alt.Axis(tickCount=3))
    )
    shares = base.mark_rect(color=DEEP).encode(
        x=alt.X("client:O", title="client", axis=alt.Axis(labels=False, ticks=False)),
        y=alt.Y("label:O", title="label"),
        fillOpacity=alt.FillOpacity("rows:Q", legend=None, scale=alt.Scale(range=[0, 1])),
    )
    chart = alt.vconcat(
        sizes.properties(height=70), shares.properties(height=alt.Step(18)), spacing=4
    )
    title = (
        f"Training rows of {each.clients} clients, {each.fewest} to {each.most} each, "
        f"by {each.labels} labels"
    )
    return figure(name, title, specification(chart), rows)
