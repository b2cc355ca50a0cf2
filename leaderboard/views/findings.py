"""Sentences that the results support, each with the page that shows the evidence.

Every function gives one sentence, or None where the results do not bear it out: what is told as a
difference is one that the paired comparison or the intervals can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmark.metrics.table import METRICS, SENTENCE_METRIC, TYPE_METRIC
from leaderboard.data.ordering import family_title
from leaderboard.data.ranking import NO_DEFENSE, Board
from leaderboard.render.formatting import number
from leaderboard.render.slugs import cell_page, task_page
from leaderboard.views.attacks import AttackPanel
from leaderboard.views.defended import DefendedTask, RankedDefense
from leaderboard.views.federated import FederatedTable
from leaderboard.views.series import SeriesPoint

MOST_FINDINGS = 6
KEPT = 0.95
"""Of the undefended utility: a defense that keeps this much is called cheap."""
FEDERATED_REFERENCE = "fedavg"


@dataclass(frozen=True)
class Finding:
    """One sentence and where its evidence stands."""

    sentence: str
    link: str
    """Relative to the root of the site; a lone anchor is on the same page."""
    evidence: str
    """What the link is called."""


def short(task: str) -> str:
    """A task's name without its suite."""
    return task.split("/", 1)[-1]


def listed(names: Sequence[str], most: int = 4) -> str:
    """`a, b and c`, with a count in place of what is too much."""
    shown = (
        [*names] if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    )
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def undefended(boards: Iterable[Board]) -> Finding | None:
    """The best reading where nothing defends, of attacks that lead above all baselines."""
    leaders = [
        (entry, ranking, board)
        for board in boards
        if board.defense == NO_DEFENSE and (ranking := board.ranking(SENTENCE_METRIC))
        for entry in ranking.leaders
    ]
    if not leaders:
        return None
    entry, ranking, board = max(leaders, key=lambda found: (found[0].value.mean, found[0].row.key))
    exact = entry.row.score.metrics.get("exact_match") if entry.row.score else None
    whole = f" and {exact.mean:.0%} of the sentences token for token" if exact else ""
    guess = (
        f"; the best guess without the gradient reaches {number(ranking.baseline)}"
        if ranking.baseline is not None
        else ""
    )
    value = f"{number(entry.value.low)} to {number(entry.value.high)}"
    return Finding(
        f"Without a defense, {entry.row.attack} reads back ROUGE-L {number(entry.value.mean)} "
        f"({value}) of {short(board.task)}{whole}{guess}.",
        cell_page(entry.row.key),
        "the snapshots" if entry.row.record.withheld else "the sentences",
    )


def breaks(points: Sequence[SeriesPoint]) -> Finding | None:
    """Where a larger batch takes most from the strongest attack, beyond both intervals."""
    falls = []
    guesses: dict[tuple[str, float], float] = {}
    for point in points:
        if point.baseline:
            place = point.panel, point.x
            guesses[place] = max(point.value.mean, guesses.get(place, 0.0))
    for panel in sorted({point.panel for point in points}):
        best: dict[float, SeriesPoint] = {}
        for point in points:
            if point.panel == panel and not point.baseline:
                former = best.get(point.x)
                if former is None or point.value.mean > former.value.mean:
                    best[point.x] = point
        first, last = best[min(best)], best[max(best)]
        if last.value.high < first.value.low:
            falls.append((first.value.mean - last.value.mean, first, last))
    if not falls:
        return None
    _, first, last = max(falls, key=lambda fall: (fall[0], fall[1].task))
    title = METRICS[first.metric].title
    guess = guesses.get((last.panel, last.x))
    beside = "" if guess is None else f", where a guess has {number(guess)}"
    name, _, unit = first.panel.rstrip(")").rpartition(" (")
    return Finding(
        f"Attacks break with the size of the batch: on {name} the "
        f"strongest falls from {title} {number(first.value.mean)} at {first.label} "
        f"{_unit(first.label, unit)} to {number(last.value.mean)} at {last.label}{beside}.",
        "#batch",
        "the curve",
    )


def least_left(tasks: Sequence[DefendedTask]) -> Finding | None:
    """The defense that leaves least on the task with most defenses, and at which utility."""
    for each in tasks:
        leading = {entry.defense for entry in each.board.leaders}
        able = [d for d in each.defenses if d.entry.defense in leading and d.utility]
        if not able or not each.plain:
            continue
        best = max(able, key=lambda d: (_worth(each, d), d.entry.defense))
        others = len(leading) - 1
        alike = (
            f", not told apart from {others} other{'s' if others > 1 else ''}," if others else ""
        )
        return Finding(
            f"On {short(each.task.name)}, {best.entry.defense} leaves least{alike} of all "
            f"{len(each.defenses) - 1} defenses: {METRICS[each.board.metric].title} "
            f"{_left(best)} instead of {_left(each.plain)}{_at_utility(each, best)}"
            f"{_tokens_left(each, best)}.",
            f"{task_page(each.task.name)}#defenses",
            "the ranking",
        )
    return None


def cheap(tasks: Sequence[DefendedTask]) -> Finding | None:
    """What leaves least among defenses that keep the utility, and less than no defense.

    Where that is among those that leave least of all, `least_left` has said so.
    """
    for each in tasks:
        plain = each.plain
        if not plain or not plain.utility or not plain.entry.rank:
            continue
        able = [d for d in each.defenses if _keeps(each, d) and 0 < d.entry.rank < plain.entry.rank]
        if {d.entry.defense for d in able} & {entry.defense for entry in each.board.leaders}:
            continue
        if able:
            best = min(able, key=lambda d: (d.entry.strongest.value.mean, d.entry.defense))
            return Finding(
                f"Of the defenses of {short(each.task.name)} that cost at most "
                f"{1 - KEPT:.0%} of the utility, {best.entry.defense} leaves least: "
                f"{METRICS[each.board.metric].title} {_left(best)} instead of "
                f"{_left(plain)}{_at_utility(each, best)}{_tokens_left(each, best)}.",
                "#trade-off",
                "the trade-off",
            )
    return None


def no_help(tasks: Sequence[DefendedTask]) -> Finding | None:
    """Defenses that leave as much as no defense, as far as the snapshots can tell."""
    for each in tasks:
        rank = each.plain.entry.rank if each.plain else 0
        if not rank:
            continue
        alike = [
            d.entry.defense
            for d in each.defenses
            if d.entry.rank == rank and d.entry.defense != NO_DEFENSE
        ]
        if alike:
            return Finding(
                f"On {short(each.task.name)}, what {listed(alike)} "
                f"{'leave' if len(alike) > 1 else 'leaves'} cannot be told apart from what is read "
                "without any defense.",
                f"{task_page(each.task.name)}#defenses",
                "the ranking",
            )
    return None


def guessing(panels: Sequence[AttackPanel]) -> Finding | None:
    """Attacks that no comparison tells apart from the best baseline of their family."""
    for panel in panels:
        scored = [
            (a, a.scores[panel.metrics[0]]) for a in panel.attacks if panel.metrics[0] in a.scores
        ]
        best = [score.rank for attack, score in scored if attack.row.baseline and score.rank]
        alike = [
            attack.name
            for attack, score in scored
            if best and score.rank >= min(best) and not attack.row.baseline
        ]
        if alike:
            return Finding(
                f"In {family_title(panel.family).lower()}, {listed(alike)} "
                f"{'read' if len(alike) > 1 else 'reads'} no more than can be guessed without the "
                "gradient.",
                "#attacks",
                "the table",
            )
    return None


def federated(tables: Sequence[FederatedTable]) -> Finding | None:
    """A federated method that leaks fewer private tokens than FedAvg, beyond both intervals."""
    for table in tables:
        known = {
            m.defense: (m.private.value, m.metrics["accuracy_local"].mean)
            for m in table.methods
            if m.private and "accuracy_local" in m.metrics
        }
        if FEDERATED_REFERENCE not in known:
            continue
        leak, accuracy = known.pop(FEDERATED_REFERENCE)
        able = [(own[1], name) for name, own in known.items() if own[0].high < leak.low]
        if able:
            reached, best = max(able)
            left = known[best][0]
            return Finding(
                f"On {short(table.task)}, {best} leaks {number(left.mean)} of the private tokens "
                f"at worst ({FEDERATED_REFERENCE} {number(leak.mean)}), at a local accuracy of "
                f"{number(reached)} ({FEDERATED_REFERENCE} {number(accuracy)}).",
                "federated.html",
                "the methods",
            )
    return None


def _left(defense: RankedDefense) -> str:
    return f"{number(defense.entry.strongest.value.mean)} by {defense.entry.strongest.attack}"


def _tokens_left(task: DefendedTask, defense: RankedDefense) -> str:
    """What sentences alone would hide: tokens that an attack reads without putting them in order.

    Nothing where a guess reads as many, or where no more is read of them than of sentences.
    """
    tokens, sentences = defense.entry.case.worst.get(TYPE_METRIC), defense.entry.strongest
    if task.board.metric == TYPE_METRIC or not tokens or tokens.baseline:
        return ""
    if tokens.value.low <= sentences.value.mean:
        return ""
    figure = f"{METRICS[TYPE_METRIC].title} {number(tokens.value.mean)}"
    return f"; {tokens.attack} still reads its tokens, {figure}"


def _worth(task: DefendedTask, defense: RankedDefense) -> float:
    sign = 1 if METRICS[task.utility_metric or ""].direction == "higher" else -1
    return sign * defense.utility.mean if defense.utility else float("-inf")


def _keeps(task: DefendedTask, defense: RankedDefense) -> bool:
    """At most the twentieth part of the undefended utility is lost."""
    plain = task.plain.utility if task.plain else None
    if not plain or not defense.utility or defense.entry.defense == NO_DEFENSE:
        return False
    if METRICS[task.utility_metric or ""].direction == "higher":
        return defense.utility.mean >= KEPT * plain.mean
    return defense.utility.mean <= (2 - KEPT) * plain.mean


def _at_utility(task: DefendedTask, defense: RankedDefense) -> str:
    plain = task.plain.utility if task.plain else None
    if not defense.utility or not plain or not task.utility_metric:
        return ""
    title = METRICS[task.utility_metric].title
    return f", at {title} {number(defense.utility.mean)} (undefended {number(plain.mean)})"


def _unit(label: str, unit: str) -> str:
    return unit.removesuffix("s") if label == "1" else unit
