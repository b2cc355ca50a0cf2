"""Small multiples as data: what is recovered against batch size, strength of a defense, training.

A series is one attack on one task, or the worst case of one kind of defense; its points are of
tasks or defenses that differ in a single number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.metrics.table import main_metrics
from benchmark.results.schema import MetricValue
from benchmark.spec import Scalar
from leaderboard.data.catalog import Catalog, TaskRow
from leaderboard.data.defenses import DefenseBoard, main_boards
from leaderboard.data.ordering import stem
from leaderboard.data.ranking import NO_DEFENSE, Board
from leaderboard.data.rows import Row

STAGES = ("scratch", "pretrained", "halfway", "", "finetuned", "memorized")
"""How far the observed model has come, by what the names of tasks end in; "" is the plain task."""
ROUNDS = ("", "middle", "last")
"""The same of federated tasks: the observed round."""


@dataclass(frozen=True)
class SeriesPoint:
    """One measured value of a series."""

    panel: str
    """The small plot that it belongs to."""
    series: str
    """The line that it belongs to."""
    x: float
    label: str
    """Of the place on the axis."""
    value: MetricValue
    metric: str
    task: str
    attack: str
    baseline: bool = False


def batch_series(tasks: Sequence[TaskRow], boards: Iterable[Board]) -> tuple[SeriesPoint, ...]:
    """Each attack on tasks that differ in batch size alone, where several sizes were run."""
    sized = {task.name: task for task in tasks}
    found = []
    for board in _undefended(boards, sized):
        task = sized[board.task]
        size = task.batch_tokens or task.batch_size
        unit = "tokens" if task.batch_tokens else "sentences"
        panel = f"{stem(task.name).split('/', 1)[-1]} ({unit})"
        found += _points(board, task, panel, float(size), str(size))
    return _with_several(found)


def progress_series(tasks: Sequence[TaskRow], boards: Iterable[Board]) -> tuple[SeriesPoint, ...]:
    """Each attack on tasks that differ in how far the observed model was trained."""
    named = {task.name: task for task in tasks}
    found = []
    for board in _undefended(boards, named):
        task = named[board.task]
        base, place, label = _stage(task, named)
        if label:
            found += _points(board, task, base.split("/", 1)[-1], float(place), label)
    return _with_several(found)


def _stage(task: TaskRow, named: Mapping[str, TaskRow]) -> tuple[str, int, str]:
    """The task without its stage, where the stage stands, and its name."""
    stages = ROUNDS if task.family == "federated" else STAGES
    base, _, last = task.name.rpartition("-")
    if last in stages and base in named:
        return base, stages.index(last), last
    if task.family == "federated":
        return task.name, 0, "first"
    if f"{task.name}-finetuned" in named:
        return task.name, 0, "start"
    return task.name, stages.index(""), "fine-tuned"


def _undefended(boards: Iterable[Board], tasks: Mapping[str, TaskRow]) -> list[Board]:
    """Boards without a defense, all of the seed that most tasks have; of several the first."""
    own = [b for b in boards if b.defense == NO_DEFENSE and b.current and b.task in tasks]
    seeds = Counter(board.seed for board in own)
    seed = min(seeds, key=lambda each: (-seeds[each], each), default=0)
    return [board for board in own if board.seed == seed]


def _points(board: Board, task: TaskRow, panel: str, x: float, label: str) -> list[SeriesPoint]:
    metric = main_metrics(task.family)[0]
    ranking = board.ranking(metric)
    return [
        SeriesPoint(
            panel, e.row.attack, x, label, e.value, metric, task.name, e.row.attack, e.row.baseline
        )
        for e in (ranking.entries if ranking else ())
    ]


def _with_several(points: Sequence[SeriesPoint]) -> tuple[SeriesPoint, ...]:
    """Series of at least two places, in plots of which at least one line reads the gradient."""
    places: dict[tuple[str, str], set[float]] = {}
    for point in points:
        places.setdefault((point.panel, point.series), set()).add(point.x)
    kept = [p for p in points if len(places[p.panel, p.series]) > 1]
    read = {p.panel for p in kept if not p.baseline}
    order = sorted(kept, key=lambda p: (p.panel, p.series, p.x, p.task))
    return tuple(point for point in order if point.panel in read)


# ------------------------------------------------------------------------------------- strengths


@dataclass(frozen=True)
class Strength:
    """A defense as a kind with one number that says how strong it is."""

    defense: str
    kind: str
    """The submission."""
    parameter: str
    """Empty where the defense has no number to vary."""
    value: float = 0.0


def strengths(rows: Iterable[Row], catalog: Catalog) -> dict[str, Strength]:
    """Of every defense in the results, by its full name; one setting away from the defaults."""
    settings = {row.defense: row.record for row in rows}
    varied: dict[str, set[str]] = {}
    for record in settings.values():
        varied.setdefault(record.defense, set()).update(record.defense_parameters)
    found = {}
    for name, record in settings.items():
        defaults = _defaults(catalog, record.defense)
        found[name] = _strength(
            name,
            record.defense,
            {**defaults, **record.defense_parameters},
            sorted(varied[record.defense]),
        )
    return found


def _defaults(catalog: Catalog, defense: str) -> dict[str, Scalar]:
    row = catalog.submission("defense", defense)
    return {each.name: each.default for each in row.parameters} if row else {}


def _strength(
    name: str, kind: str, settings: Mapping[str, Scalar], varied: Sequence[str]
) -> Strength:
    numbers = [
        (key, float(value))
        for key in varied
        if isinstance(value := settings.get(key), int | float) and not isinstance(value, bool)
    ]
    return Strength(name, kind, *numbers[0]) if len(numbers) == 1 else Strength(name, kind, "")


def strength_series(
    boards: Iterable[DefenseBoard], known: Mapping[str, Strength], tasks: Sequence[TaskRow]
) -> dict[tuple[str, str], tuple[SeriesPoint, ...]]:
    """The worst case against the strength of each kind of defense, by kind and parameter."""
    known_boards = list(boards)
    own = [b for task in tasks for b in main_boards(task.name, task.family, known_boards)]
    first: dict[str, int] = {}
    for board in own:
        first[board.task] = min(board.seed, first.get(board.task, board.seed))
    found: dict[tuple[str, str], list[SeriesPoint]] = {}
    for board in own:
        for entry in board.entries if board.seed == first[board.task] else ():
            strength = known.get(entry.defense)
            if strength and strength.parameter:
                short = board.task.split("/", 1)[-1]
                key = (strength.kind, strength.parameter)
                worst = entry.strongest
                found.setdefault(key, []).append(
                    SeriesPoint(
                        *("", short, strength.value, f"{strength.value:g}", worst.value),
                        *(board.metric, board.task, worst.attack, bool(worst.baseline)),
                    )
                )
    kept = {key: _by_task(points) for key, points in sorted(found.items())}
    return {key: points for key, points in kept.items() if points}


def _by_task(points: Sequence[SeriesPoint]) -> tuple[SeriesPoint, ...]:
    counts: dict[str, int] = {}
    for point in points:
        counts[point.series] = counts.get(point.series, 0) + 1
    kept = [point for point in points if counts[point.series] > 1]
    return tuple(sorted(kept, key=lambda point: (point.series, point.x)))
