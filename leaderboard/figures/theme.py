"""One look for all figures: colors that every eye tells apart, and a shape beside each color."""

from __future__ import annotations

from typing import Any

COLORS = (
    *("#0072b2", "#d55e00", "#008f6b", "#b5578c"),
    *("#8c6d00", "#6b6ecf", "#3b9ab2", "#7f7f7f"),
)
"""After Okabe and Ito, as dark or as light as is needed to stand out from white and from black."""
SHAPES = (
    *("circle", "square", "triangle-up", "diamond"),
    *("cross", "triangle-down", "triangle-right", "triangle-left"),
)
INK = "#1a1d24"
SOFT = "#5a6170"
RULE = "#d5d9e1"
DEEP = "#005a9c"
"""What heat maps fill with; the more, the less transparent."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

MOST_SERIES = len(COLORS)


def scales(names: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Domain and range of color and of shape for so many names; further ones repeat."""
    places = range(len(names))
    colors = [COLORS[place % len(COLORS)] for place in places]
    shapes = [SHAPES[place % len(SHAPES)] for place in places]
    return {"domain": names, "range": colors}, {"domain": names, "range": shapes}


def config() -> dict[str, Any]:
    """Settings of Vega-Lite that all figures share; pages recolor text and lines when dark."""
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": SOFT, "titleColor": SOFT}
    return {
        "background": "transparent",
        "padding": {"left": 12, "right": 24, "top": 8, "bottom": 5},
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 10,
            "labelPadding": 4,
            "gridColor": RULE,
            "domainColor": SOFT,
            "tickColor": SOFT,
            "labelLimit": 260,
        },
        "legend": {
            **text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "symbolSize": 90,
            "symbolOpacity": 1,
            "columnPadding": 24,
        },
        "header": {**text, "labelFontSize": 13, "labelFontWeight": "bold", "labelColor": INK},
        "title": {"font": FONT, "color": INK},
        "line": {"strokeWidth": 2},
    }
