"""What a plan would take on a GPU, told before anything is downloaded.

Times are scaled from those of published records: by parameters and sentences, and by how many cores
a GPU is taken for. That is an estimate and says so; nothing here was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.plugins.catalog import Entry
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.schema import Record
from benchmark.results.store import read_records, record_files
from benchmark.suites import Footprint, Suite, Task

CORES = 40
"""One core's work that a GPU does in the same time: 2 TFLOP/s in float32 against 50 GFLOP/s."""
COPIES = 8
"""Of the weights that an attack holds: gradients, their derivatives, candidates, the prior."""
BASE_GB = 2.0
"""What activations and the libraries take besides."""
REFERENCE = Footprint(23)
"""MiniLM, which most published times are of; others are named in their suite."""

PlanLine = tuple[Task, ConfiguredSubmission, ConfiguredSubmission]
Training = tuple[Task, ConfiguredSubmission]


@dataclass(frozen=True)
class Forecast:
    """A plan in figures."""

    cells: int
    trainings: int
    """Of a model with a defense, for each seed; their time is not counted."""
    downloads: Mapping[str, float]
    """Megabytes by model reference."""
    memory_gb: float
    """Of one cell at most, on the GPU."""
    disk_gb: float
    """All snapshots of the plan, in float32."""
    hours: float
    unknown: tuple[str, ...]
    """Attacks of which no published record tells the time, which count as none."""


def forecast(
    suite: Suite, pairs: Sequence[PlanLine], published: Path, trainings: Sequence[Training] = ()
) -> Forecast:
    """Downloads, memory and time of a plan."""
    usual = {attack.entry.name: usual_steps(attack.entry) for _, attack, _ in pairs}
    rates = measured_rates(published, usual)
    models = {reference for task, _, _ in pairs for reference in _references(task)}
    models |= {task.model for task, _ in trainings}
    sizes = {name: suite.footprints.get(name, REFERENCE) for name in sorted(models)}
    seconds = [cell_seconds(task, attack, sizes, rates) / CORES for task, attack, _ in pairs]
    names = {attack.entry.name for _, attack, _ in pairs}
    return Forecast(
        cells=len(pairs),
        trainings=len(trainings),
        downloads={name: size.download_mb for name, size in sizes.items() if size.download_mb},
        memory_gb=max((_memory(size) for size in sizes.values()), default=0.0),
        disk_gb=_disk(pairs, sizes),
        hours=sum(seconds) / 3600,
        unknown=tuple(sorted(names - rates.keys())),
    )


def measured_rates(
    published: Path, usual: Mapping[str, float], of: Callable[[Sequence[float]], float] = max
) -> dict[str, float]:
    """Seconds of one core for a sentence and a million parameters, by attack: those `of` all.

    Where an attack counts its steps, as gradient matching does, the seconds are those of a step;
    `usual` is how many it takes where a record says nothing else.
    """
    from benchmark.plugins.registry import all_tasks, find_suites

    tasks, suites = all_tasks(), find_suites()[0]
    rates: dict[str, list[float]] = {}
    for _, record in read_records(record_files(published), Record, quietly=True):
        task = tasks.get(record.task)
        seconds = [s.seconds for s in record.snapshots if s.seconds is not None]
        if task is None or not seconds or record.suite == "mini":
            continue
        size = suites[record.suite].footprints.get(task.model, REFERENCE).parameters
        steps = float(record.attack_parameters.get("steps", usual.get(record.attack, 1)))
        rate = sum(seconds) / len(seconds) / task.batch_size / size / steps
        rates.setdefault(record.attack, []).append(rate)
    return {attack: of(found) for attack, found in rates.items()}


def is_downloaded(suite: Suite) -> bool:
    """Whether its weights come from the hub; such a suite is meant for a GPU."""
    return any(size.download_mb for size in suite.footprints.values())


def _references(task: Task) -> list[str]:
    prior = task.prior if task.prior not in (None, "self") else None
    return [task.model, *([prior] if prior else [])]


def cell_seconds(
    task: Task,
    attack: ConfiguredSubmission,
    sizes: Mapping[str, Footprint],
    rates: Mapping[str, float],
) -> float:
    """Of one core for all snapshots; a batch that is filled with tokens has a sentence for 25."""
    sentences = (task.batch_tokens or 0) / 25 or task.batch_size
    rate = rates.get(attack.entry.name, 0.0)
    work = sentences * sizes.get(task.model, REFERENCE).parameters * task.snapshots
    steps = float(attack.parameters.get("steps", usual_steps(attack.entry)))
    return rate * work * steps


def usual_steps(attack: Entry) -> float:
    """Steps that an attack takes unless it is told otherwise; 1 where it counts none."""
    rule = attack.parameters.get("steps")
    return float(rule.default) if rule else 1.0


def _memory(size: Footprint) -> float:
    return BASE_GB + COPIES * 4 * size.parameters * 1e6 / 2**30


def _disk(pairs: Sequence[PlanLine], sizes: Mapping[str, Footprint]) -> float:
    """A gradient for each snapshot of each task under each defense."""
    sets = {(task, defense.name) for task, _, defense in pairs}
    return sum(4e-3 * sizes[task.model].parameters * task.snapshots for task, _ in sets)


def lines(found: Forecast) -> list[str]:
    """The forecast as sentences."""
    whole = sum(found.downloads.values()) / 1000
    said = [
        f"download {name.partition(':')[2]}: {mb:.0f} MB" for name, mb in found.downloads.items()
    ]
    said.append(f"{found.cells} cells; downloads {whole:.1f} GB of weights, corpora besides")
    said.append(f"GPU memory up to {found.memory_gb:.0f} GB a cell (a rule of thumb)")
    if found.cells:
        said.append(
            f"snapshots of up to {found.disk_gb:,.0f} GB in the cache, where nobody deletes those "
            "of tasks that are done"
        )
        said.append(
            f"about {found.hours:.0f} hours of one GPU: scaled from times measured on one CPU core "
            f"by parameters and sentences, a GPU taken for {CORES} cores; nothing was measured on "
            "a GPU"
        )
    if found.trainings:
        said.append(f"{found.trainings} trainings a seed besides, whose hours are not counted")
    if found.unknown:
        said.append(f"not counted, since no published record tells: {', '.join(found.unknown)}")
    return said
