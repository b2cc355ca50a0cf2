"""Results and a catalog whose every text is a script."""

from __future__ import annotations

import json
from pathlib import Path

from benchmark.results.schema import Example
from benchmark.results.utility_summary import UtilityCost
from benchmark.status import Status
from leaderboard.data.catalog import Catalog, SubmissionRow, SuiteRow, TaskRow
from leaderboard.data.rows import Row
from leaderboard.data.sources import Source
from leaderboard.views.board import Leaderboard
from tests.leaderboard.samples import HOSTILE, make_record, make_score, make_snapshots, make_value

TASK = f"mini/{HOSTILE}"
FEDERATED_TASK = f"mini/{HOSTILE}-fl"


def hostile_board() -> Leaderboard:
    """A leaderboard of several attacks, defenses and trainings that all bear the script."""
    rows = tuple(
        _row(attack, defense, level if attack == HOSTILE else 0.1)
        for defense, level in (("none", 0.9), (HOSTILE, 0.5))
        for attack in (HOSTILE, "random")
    )
    costs = {(TASK, row.defense): _cost(TASK, row.defense) for row in rows}
    costs |= {(FEDERATED_TASK, name): _cost(FEDERATED_TASK, name) for name in (HOSTILE, "fedavg")}
    costs[FEDERATED_TASK, "failed"] = UtilityCost(
        FEDERATED_TASK, "failed", {}, None, Status.ERROR, HOSTILE, (0,)
    )
    return Leaderboard(rows, _catalog(), costs)


def _row(attack: str, defense: str, value: float) -> Row:
    snapshots = [
        s.model_copy(update={"note": HOSTILE, "texts": [HOSTILE], "digest": HOSTILE})
        for s in make_snapshots(failed=1, reason=HOSTILE)
    ]
    record = make_record(
        TASK,
        attack,
        defense,
        attack_parameters={HOSTILE: HOSTILE},
        defense_parameters={HOSTILE: 1.0},
        snapshots=snapshots,
        told=[HOSTILE],
        reason=HOSTILE,
    )
    fields = dict.fromkeys(
        ("git_commit", "processor", "platform", "python", "device", "sandbox"), HOSTILE
    )
    origin = record.provenance.model_copy(update=fields | {"packages": {HOSTILE: HOSTILE}})
    record = record.model_copy(update={"provenance": origin})
    examples = [Example(index=0, truth=f"{HOSTILE} secret", recovered=f"{HOSTILE} {HOSTILE}")]
    metrics = {"rougeL": [value] * 8, "type_f1": [value] * 8, HOSTILE: [1.0]}
    return Row(record, make_score(metrics, examples), baseline=attack == "random")


def _cost(task: str, defense: str) -> UtilityCost:
    names = ("mcc", "accuracy_global", "accuracy_local", "bytes_up", "bytes_down")
    metrics = {name: make_value([0.5]) for name in names}
    curve, counts = {1: 0.5, 2: 0.75}, ((3, 1), (0, 8))
    return UtilityCost(task, defense, metrics, 1.0, Status.OK, HOSTILE, (0,), curve, counts)


def _catalog() -> Catalog:
    tasks = tuple(
        TaskRow(
            name,
            family,
            HOSTILE,
            model=HOSTILE,
            corpus=HOSTILE,
            checkpoint=HOSTILE,
            grants=(HOSTILE,),
            papers=(HOSTILE,),
            utility=("mcc",),
            trained_as=name,
            panel=(HOSTILE,),
        )
        for name, family in ((TASK, "classification"), (FEDERATED_TASK, "federated"))
    )
    submissions = tuple(
        SubmissionRow(
            kind,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            variants=((HOSTILE, {HOSTILE: HOSTILE}),),
            needs=(HOSTILE,),
            told={HOSTILE: (HOSTILE,)},
            source=Source(HOSTILE, HOSTILE, HOSTILE),
            departures=((HOSTILE, HOSTILE),),
        )
        for kind in ("attack", "defense")
    )
    return Catalog((SuiteRow("mini", HOSTILE, (("x", (HOSTILE,)),)),), tasks, submissions)


def write_hostile_timings(folder: Path) -> Path:
    """Two files of pytest-benchmark whose every text is the script."""
    for number in range(2):
        _write_hostile_timing(folder / f"{number}.json", 2.0 + number)
    return folder


def _write_hostile_timing(file: Path, ratio: float) -> None:
    stats = {"min": 0.1, "median": 0.2, "mean": 0.2, "rounds": 3}
    test = {"name": HOSTILE, "fullname": HOSTILE, "stats": stats, "extra_info": {"ratio": ratio}}
    whole = {
        "benchmarks": [test],
        "machine_info": dict.fromkeys(("system", "python_version", "processor"), HOSTILE),
        "commit_info": {"id": HOSTILE},
        "datetime": HOSTILE,
    }
    file.write_text(json.dumps(whole))
