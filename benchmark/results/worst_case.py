"""What each defense leaves: the worst case over all attacks, kept beside their records.

A defense is judged by the strongest attack on it, whichever that is, and not by the attack that its
authors had in mind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmark.errors import UserError
from benchmark.files import file_digest, read_model, write_model
from benchmark.metrics.table import METRICS
from benchmark.results.schema import MetricValue, Record, Score, StrongestAttack, WorstCase
from benchmark.results.store import WORST_CASE_FILE, record_files, score_path

Scored = tuple[Record, Score]


def write_worst_cases(results: Path) -> None:
    """Bring the worst case of every task and defense up to date with its scores."""
    folders: dict[Path, list[Scored]] = defaultdict(list)
    for path in record_files(results):
        folders[path.parent] += _scored(path)
    for folder, scored in folders.items():
        target = folder / WORST_CASE_FILE
        if not scored:
            target.unlink(missing_ok=True)
            continue
        leak = worst_case(scored)
        if not target.exists() or _read(target) != leak:
            write_model(target, leak)


def worst_cases(results: Path) -> dict[tuple[str, str], WorstCase]:
    """All worst cases below a results folder, by task and defense."""
    found = (read_model(path, WorstCase) for path in sorted(results.rglob(WORST_CASE_FILE)))
    return {(each.task, each.defense): each for each in found}


def worst_case(scored: Iterable[Scored]) -> WorstCase:
    """The largest mean of every recovery metric over attacks on one task under one defense.

    Only the newest version of the task counts. Attacks that guess are attacks, too: where one of
    them is the worst case, nothing was read from the gradient.
    """
    newest = max(record.task_version for record, _ in scored)
    current = [(record, score) for record, score in scored if record.task_version == newest]
    found: dict[str, list[StrongestAttack]] = defaultdict(list)
    for record, score in current:
        for name, value in _leaked(score.metrics).items():
            found[name].append(
                StrongestAttack(attack=record.attack_name, seed=record.seed, value=value, rivals=0)
            )
    first = current[0][0]
    return WorstCase(
        task=first.task,
        task_version=newest,
        defense=first.defense_name,
        worst={
            name: max(values, key=lambda w: (w.value.mean, w.attack)).model_copy(
                update={"rivals": len(values)}
            )
            for name, values in sorted(found.items())
        },
    )


def _leaked(metrics: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    """The metrics of which more means more leak."""
    known = {name: METRICS[name].better_for_attack for name in metrics if name in METRICS}
    return {name: metrics[name] for name, end in known.items() if end == "higher"}


def _scored(path: Path) -> list[Scored]:
    """A record with its score, where that is fresh."""
    if not score_path(path).exists():
        return []
    score = read_model(score_path(path), Score)
    fresh = score.record_digest == file_digest(path)
    return [(read_model(path, Record), score)] if fresh and score.metrics else []


def _read(path: Path) -> WorstCase | None:
    try:
        return read_model(path, WorstCase)
    except UserError:
        return None
