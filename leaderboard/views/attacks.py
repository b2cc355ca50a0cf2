"""One ranked table of attacks: by family, on the tasks that all of its attacks were run on.

The panel of a family are the undefended lines that every attack of its most-attacked line was run
on, so that no attack looks better because it was tried on less. Of the variants of one attack the
best is ranked; the others stand folded under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from benchmark.metrics.table import main_metrics
from benchmark.results.measure import summary
from benchmark.results.schema import MetricValue
from leaderboard.data.catalog import TaskRow
from leaderboard.data.ordering import by_family
from leaderboard.data.ranking import NO_DEFENSE, Board, shared_ranks
from leaderboard.data.rows import Row

PanelLine = tuple[str, int]
"""A task and a seed."""


@dataclass(frozen=True)
class PanelScore:
    """What an attack recovers over all snapshots of the panel, by one metric."""

    value: MetricValue
    rank: int = 0
    """0 where the attack was not run on the whole panel, or is a folded variant."""
    shared: bool = False


@dataclass(frozen=True)
class RankedAttack:
    """One attack of one family."""

    row: Row
    """Any of its rows on the panel; it carries names and parameters."""
    scores: Mapping[str, PanelScore]
    """By metric: sentences and token types."""
    lines: int
    """Lines of the panel that it was run on."""
    seconds: float | None
    peak_mb: float | None
    verified: int
    """Of these lines, how many somebody has repeated."""
    failed: int
    """Snapshots that count as nothing recovered."""
    variants: tuple[RankedAttack, ...] = ()

    @property
    def name(self) -> str:
        """The attack with its parameters."""
        return self.row.attack


@dataclass(frozen=True)
class AttackPanel:
    """The attacks of one family of tasks."""

    family: str
    metrics: tuple[str, ...]
    """What is judged; the first ranks."""
    lines: tuple[PanelLine, ...]
    attacks: tuple[RankedAttack, ...]
    """Ranked ones first, then token sets, then those that were not run on the whole panel."""

    @property
    def leaders(self) -> tuple[RankedAttack, ...]:
        """Attacks at rank 1 by the first metric; none where a baseline shares that rank."""
        metric = self.metrics[0]
        first = tuple(a for a in self.attacks if metric in a.scores and a.scores[metric].rank == 1)
        return () if any(attack.row.baseline for attack in first) else first


def attack_panels(tasks: Sequence[TaskRow], boards: Iterable[Board]) -> tuple[AttackPanel, ...]:
    """A panel for each family of the tasks that was attacked without a defense."""
    plain = {(b.task, b.seed): b for b in boards if b.defense == NO_DEFENSE}
    made = (_panel(family, own, plain) for family, own in by_family(tasks))
    return tuple(panel for panel in made if panel.attacks)


def _panel(family: str, tasks: Sequence[TaskRow], plain: Mapping[PanelLine, Board]) -> AttackPanel:
    names = {task.name for task in tasks}
    own = {key: board for key, board in plain.items() if key[0] in names}
    tried = {key: _tried(board) for key, board in own.items()}
    lines = panel_lines(tried, [task.name for task in tasks])
    metrics = main_metrics(family)
    attacks = {attack for key in lines for attack in tried[key]}
    made = [_attack(name, [own[key] for key in lines], metrics) for name in sorted(attacks)]
    scored = [attack for attack in made if attack.scores]
    return AttackPanel(family, metrics, lines, _ranked(_folded(scored), metrics, len(lines)))


def panel_lines(
    tried: Mapping[PanelLine, frozenset[str]], order: Sequence[str]
) -> tuple[PanelLine, ...]:
    """The most-attacked line, and all of its seed that every one of its attacks was run on as well.

    Seeds are never mixed: of several, the one with most attacks is taken, then with most lines.
    """
    places = {name: place for place, name in enumerate(order)}
    by_seed: dict[int, list[PanelLine]] = {}
    for key in sorted(tried, key=lambda key: places[key[0]]):
        by_seed.setdefault(key[1], []).append(key)
    found: tuple[int, int, tuple[PanelLine, ...]] = (0, 0, ())
    for _, own in sorted(by_seed.items()):
        everyone = max((tried[key] for key in own), key=len)
        lines = tuple(key for key in own if tried[key] >= everyone)
        if (len(everyone), len(lines)) > found[:2]:
            found = (len(everyone), len(lines), lines)
    return found[2]


def _tried(board: Board) -> frozenset[str]:
    return frozenset(row.attack for row in board.rows if not row.ruled_out and row.score)


def _attack(name: str, boards: Sequence[Board], metrics: Sequence[str]) -> RankedAttack:
    rows = [row for board in boards if (row := board.row(name)) and row.score]
    pooled = {metric: _pooled(rows, metric) for metric in metrics}
    times = [row.seconds for row in rows if row.seconds is not None]
    memory = [row.record.peak_mb for row in rows if row.record.peak_mb is not None]
    return RankedAttack(
        row=rows[0],
        scores={metric: PanelScore(value) for metric, value in pooled.items() if value},
        lines=len(rows),
        seconds=fmean(times) if times else None,
        peak_mb=max(memory, default=None),
        verified=sum(row.verified is not None for row in rows),
        failed=sum(row.failed for row in rows),
    )


def _pooled(rows: Sequence[Row], metric: str) -> MetricValue | None:
    """All snapshots together; None where the attack is not judged by the metric."""
    found = [row.score.metrics.get(metric) for row in rows if row.score]
    values = [value for each in found if each for value in each.values]
    return summary(metric, values) if values and all(found) else None


def _folded(attacks: Sequence[RankedAttack]) -> list[RankedAttack]:
    """The best variant of each attack on most lines, with the others under it."""
    groups: dict[str, list[RankedAttack]] = {}
    for attack in attacks:
        groups.setdefault(attack.row.record.attack, []).append(attack)
    folded = []
    for group in groups.values():
        best, *others = sorted(group, key=_preference)
        folded.append(replace(best, variants=tuple(others)))
    return folded


def _preference(attack: RankedAttack) -> tuple[int, float, str]:
    first = next(iter(attack.scores.values()))
    return -attack.lines, -first.value.mean, attack.name


def _ranked(
    attacks: Sequence[RankedAttack], metrics: Sequence[str], lines: int
) -> tuple[RankedAttack, ...]:
    for metric in metrics:
        judged = [a for a in attacks if a.lines == lines and metric in a.scores]
        ranks = shared_ranks([attack.scores[metric].value for attack in judged])
        placed = {a.name: r for a, r in zip(judged, ranks, strict=True)}
        attacks = [_with_rank(attack, metric, placed, ranks) for attack in attacks]
    return tuple(sorted(attacks, key=lambda attack: _order(attack, metrics)))


def _with_rank(
    attack: RankedAttack, metric: str, placed: Mapping[str, int], ranks: Sequence[int]
) -> RankedAttack:
    if attack.name not in placed:
        return attack
    rank = placed[attack.name]
    score = replace(attack.scores[metric], rank=rank, shared=ranks.count(rank) > 1)
    return replace(attack, scores={**attack.scores, metric: score})


def _order(attack: RankedAttack, metrics: Sequence[str]) -> tuple[tuple[bool, int, float], ...]:
    """By each metric in turn; what has no rank by it comes behind."""
    keys = []
    for metric in metrics:
        score = attack.scores.get(metric)
        rank, mean = (score.rank, score.value.mean) if score else (0, 0.0)
        keys.append((not rank, rank, -mean))
    return tuple(keys)
