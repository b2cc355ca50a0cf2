"""What each defense leaves: the worst case over all attacks, kept beside their records.

A defense is judged by the strongest attack on it, whichever that is, and not by the attack that its
authors had in mind. What it has to face is a panel that its suite fixes for each objective, so that
no defense looks safe because it was attacked by less; further attacks that were run count as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmark.errors import UserError
from benchmark.files import read_model, write_model
from benchmark.metrics.table import METRICS, on_boards
from benchmark.plugins.registry import panel_of
from benchmark.results.comparison import Comparable, comparable
from benchmark.results.schema import (
    MetricValue,
    PanelMember,
    PanelOutcome,
    Record,
    Score,
    SnapshotResult,
    StrongestAttack,
    WorstCase,
)
from benchmark.results.store import (
    FORMER_FILES,
    fresh_score,
    read_records,
    record_files,
    worst_case_files,
    worst_case_path,
)
from benchmark.status import Status
from benchmark.suites import NO_DEFENSE

Scored = tuple[Record, Score | None]
"""A record with its score, where that is fresh."""
Place = tuple[str, str, int]
"""Task, defense and seed."""


def write_worst_cases(results: Path) -> None:
    """Bring the worst case of every task, defense and seed up to date with its scores.

    Records that cannot be read were named when they were to be scored.
    """
    folders: dict[Path, list[Scored]] = defaultdict(list)
    for path, record in read_records(record_files(results), Record, quietly=True):
        folders[path.parent].append((record, fresh_score(path)))
    wanted = {
        worst_case_path(folder, case.seed): case
        for folder, scored in folders.items()
        for case in cases(scored)
    }
    former = (path for name in FORMER_FILES for path in results.rglob(name))
    for path in (*worst_case_files(results), *former):
        if path not in wanted:
            path.unlink()
    for path, case in wanted.items():
        if not path.exists() or _read(path) != case:
            write_model(path, case)


def worst_cases(results: Path) -> dict[Place, WorstCase]:
    """All worst cases below a results folder, by task, defense and seed."""
    found = read_records(worst_case_files(results), WorstCase)
    return {(each.task, each.defense, each.seed): each for _, each in found}


def cases(scored: Sequence[Scored]) -> list[WorstCase]:
    """The worst case of each seed, of the newest version and on the newest snapshots alone."""
    newest = max((record.task_version for record, _ in scored), default=0)
    groups = comparable(scored, lambda item: item[0])
    made = [worst_case(g, panel_of(g.task)) for g in groups if g.current and g.version == newest]
    return [case for case in made if case.worst]


def fullest(found: Iterable[WorstCase]) -> tuple[WorstCase, ...]:
    """Those of each defense's seeds on which it faced most of the panel, beside no defense.

    With further seeds often only the attacks that take little time are run, for more snapshots of
    those; what a defense leaves for them alone says nothing new.
    """
    made = tuple(found)
    least: dict[tuple[str, int, str], int] = {}
    for case in made:
        key = case.task, case.task_version, case.defense
        least[key] = min(len(case.missing), least.get(key, len(case.panel)))
    full = {
        (case.task, case.task_version, case.seed, case.defense)
        for case in made
        if len(case.missing) == least[case.task, case.task_version, case.defense]
    }
    compared = {(*place, NO_DEFENSE) for *place, _ in full}
    return tuple(
        case
        for case in made
        if (case.task, case.task_version, case.seed, case.defense) in full | compared
    )


def worst_case(group: Comparable[Scored], panel: Sequence[str]) -> WorstCase:
    """The largest mean of every recovery metric over attacks on the same snapshots.

    Attacks that guess are attacks, too: where one of them is the worst case, nothing was read from
    the gradient. An attack that answered no snapshot has shown nothing.
    """
    found: dict[str, list[StrongestAttack]] = defaultdict(list)
    for record, score in group.items:
        if not any(result.status is Status.OK for result in record.snapshots):
            continue
        for name, value in _leaked(score.metrics if score else {}).items():
            strong = StrongestAttack(
                attack=record.attack_name,
                value=value,
                rivals=0,
                baseline=record.baseline,
            )
            found[name].append(strong)
    by_name = {record.attack_name: (record, score) for record, score in group.items}
    return WorstCase(
        task=group.task,
        task_version=group.version,
        defense=group.defense,
        seed=group.seed,
        snapshots=group.snapshots,
        truths=next((score.truths for _, score in group.items if score and score.truths), ""),
        panel=[_member(name, by_name.get(name)) for name in panel],
        worst={
            name: max(values, key=lambda w: (w.value.mean, w.attack)).model_copy(
                update={"rivals": len(values)}
            )
            for name, values in sorted(found.items())
        },
    )


def _member(attack: str, scored: Scored | None) -> PanelMember:
    """How an attack of the panel fared; one that failed on a snapshot has not shown its best."""
    if scored is None:
        return PanelMember(attack=attack, outcome="not run")
    record, score = scored
    if record.ruled_out or _all_refused(record.snapshots):
        reason = record.reason or next((s.reason for s in record.snapshots), "")
        return PanelMember(attack=attack, outcome="unsupported", reason=reason)
    failed = [s for s in record.snapshots if s.status not in (Status.OK, Status.UNSUPPORTED)]
    status = failed[0].status if failed else record.status
    if failed or not record.snapshots:
        outcome: PanelOutcome = "timeout" if status is Status.TIMEOUT else "failed"
        parts = f"{len(failed)} of {len(record.snapshots)} snapshots: " if failed else ""
        reason = f"{parts}{failed[0].reason if failed else record.reason}"
        return PanelMember(attack=attack, outcome=outcome, reason=reason)
    return PanelMember(attack=attack, outcome="scored" if score else "not scored")


def _all_refused(snapshots: Sequence[SnapshotResult]) -> bool:
    return bool(snapshots) and all(s.status is Status.UNSUPPORTED for s in snapshots)


def _leaked(metrics: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    """The metrics of which more means more leak."""
    known = {n: METRICS[n].better_for_attack for n in metrics if n in METRICS and on_boards(n)}
    return {name: metrics[name] for name, end in known.items() if end == "higher"}


def _read(path: Path) -> WorstCase | None:
    try:
        return read_model(path, WorstCase)
    except UserError:
        return None
