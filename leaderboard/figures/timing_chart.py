"""The ratios of timing tests, run by run."""

from __future__ import annotations

from leaderboard.figures.draw import Figure, figure, specification
from leaderboard.figures.theme import COLORS
from leaderboard.views.timing import TimingHistory


def ratio_history(history: TimingHistory) -> Figure | None:
    """A small plot for each test; None with fewer than two runs, or without any ratio."""
    import altair as alt

    rows = [
        {
            "test": test.title,
            "run": number,
            "datetime": run.datetime,
            "commit": run.commit_info.short,
            "ratio": test.ratio,
        }
        for number, run in enumerate(history.runs, 1)
        for test in run.benchmarks
        if test.ratio is not None
    ]
    if len(history.runs) < 2 or not rows:
        return None
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("run:O", title="run", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("ratio:Q", title="times as fast", axis=alt.Axis(tickCount=3)),
    )
    layer = alt.layer(
        base.mark_line(color=COLORS[0]),
        base.mark_point(color=COLORS[0], filled=True, size=40, opacity=1),
    )
    header = alt.Header(labelLimit=240, labelFontSize=9)
    chart = (
        layer.properties(width=215, height=80)
        .facet(facet=alt.Facet("test:N", title=None, header=header), columns=4)
        .resolve_scale(y="independent")
    )
    tests = {row["test"] for row in rows}
    title = f"Ratios of {len(tests)} timing tests over {len(history.runs)} runs"
    return figure("timing-ratios", title, specification(chart), rows)
