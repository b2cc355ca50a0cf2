"""Which figures the pages of a suite show."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboard.data.ranking import NO_DEFENSE
from leaderboard.figures import charts, federated_charts
from leaderboard.figures.draw import Figure
from leaderboard.render.slugs import slug
from leaderboard.views.defended import DefendedTask
from leaderboard.views.federated import FederatedTable
from leaderboard.views.heat import HeatMap
from leaderboard.views.series import Strength
from leaderboard.views.suite import SuiteView
from leaderboard.views.trade_off import TradeOff

MOST_TRADE_OFFS = 4
"""Drawn on a front page, the one with most defenses large; each task's page has its own."""
MOST_PANELS = 9
"""Small plots of one figure."""
STRENGTHS = {
    ("gaussian_noise", "sigma"): ("noise", "noise σ", "log"),
    ("dpsgd", "epsilon"): ("epsilon", "privacy budget ε", "log"),
    ("prune", "ratio"): ("pruning", "share of entries pruned", "ordinal"),
}
"""Kinds of defense whose strength has an axis of its own: anchor, title and scale."""


@dataclass(frozen=True)
class SuiteFigures:
    """The figures of one suite's front page."""

    trade_offs: tuple[tuple[DefendedTask, Figure], ...]
    heat_maps: tuple[tuple[HeatMap, Figure], ...]
    batch: Figure | None
    progress: Figure | None
    strengths: tuple[tuple[str, str, Figure], ...]
    """Anchor, title, figure."""
    federated: tuple[tuple[FederatedTable, Figure], ...]

    @property
    def all(self) -> tuple[Figure, ...]:
        """All of them, to be stored as files."""
        pairs = (*self.trade_offs, *self.heat_maps, *self.federated)
        single = [each for each in (self.batch, self.progress) if each]
        return (*(drawn for _, drawn in pairs), *single, *(f for _, _, f in self.strengths))


def suite_figures(view: SuiteView) -> SuiteFigures:
    """Draw what the results of a suite have to show."""
    name = slug(view.name)
    return SuiteFigures(
        trade_offs=tuple(_trade_offs(view)),
        heat_maps=tuple(
            (each, charts.heat_map(each, f"{name}-heat-{slug(each.family or 'other')}"))
            for each in view.heat_maps
        ),
        batch=_batch(view, name),
        progress=_progress(view, name),
        strengths=tuple(_strengths(view, name)),
        federated=tuple(
            (table, federated_charts.federated(table, f"{slug(table.task)}-federated"))
            for table in view.federated
            if sum("accuracy_local" in method.metrics for method in table.methods) > 1
        ),
    )


def trade_off_figure(each: TradeOff, known: dict[str, Strength], wide: bool = True) -> Figure:
    """The trade-off plot of one task and seed."""
    size = "" if wide else "-small"
    return charts.trade_off(
        each, known, f"{slug(each.task.name)}-trade-off-s{each.seed}{size}", wide
    )


def _trade_offs(view: SuiteView) -> list[tuple[DefendedTask, Figure]]:
    drawn = [each for each in view.defended if each.trade_off][:MOST_TRADE_OFFS]
    return [
        (each, trade_off_figure(each.trade_off, view.strengths, place == 0))
        for place, each in enumerate(drawn)
        if each.trade_off
    ]


def _batch(view: SuiteView, name: str) -> Figure | None:
    panels = list(dict.fromkeys(point.panel for point in view.by_batch))[:MOST_PANELS]
    points = [point for point in view.by_batch if point.panel in panels]
    title = "What each attack reads without a defense, against the size of the batch"
    axis = "sentences or tokens to a batch"
    return charts.multiples(points, f"{name}-batch", title, axis) if points else None


def _progress(view: SuiteView, name: str) -> Figure | None:
    panels = list(dict.fromkeys(point.panel for point in view.by_progress))[:MOST_PANELS]
    points = [point for point in view.by_progress if point.panel in panels]
    title = "What each attack reads without a defense, against the progress of training"
    if not points:
        return None
    return charts.multiples(
        points, f"{name}-progress", title, "how far the model was trained", "ordinal"
    )


def _strengths(view: SuiteView, name: str) -> list[tuple[str, str, Figure]]:
    found = []
    for key, points in view.by_strength.items():
        if key not in STRENGTHS or key[0] == NO_DEFENSE:
            continue
        anchor, axis, scale = STRENGTHS[key]
        positive = all(point.x > 0 for point in points)
        kind = scale if positive or scale == "ordinal" else "linear"
        title = f"What the strongest attack reads, against the {axis} of {key[0]}"
        drawn = charts.multiples(points, f"{name}-{anchor}", title, axis, kind)
        found.append((anchor, axis, drawn))
    return found
