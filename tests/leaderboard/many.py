"""Synthetic results by the thousand, for what the size of a leaderboard does to its pages."""

from __future__ import annotations

import random
from itertools import islice, product
from pathlib import Path

from benchmark.results.schema import Example
from leaderboard.data.catalog import Catalog, SubmissionRow, SuiteRow, TaskRow
from tests.leaderboard.samples import SENTENCES, make_record, make_score, make_snapshots, store

FAMILIES = ("language-modeling", "classification", "translation")
TASKS = tuple(f"many/{name}-b{size}" for name in "abcdefghij" for size in (1, 2, 4, 8, 16))
ATTACKS = tuple(f"attack{number}" for number in range(20))
DEFENSES = ("none", *(f"defense{number}" for number in range(9)))
METRICS = ("rouge1", "rouge2", "rougeL", "exact_match", "type_precision", "type_recall", "type_f1")
PANEL = ATTACKS[:4]


def write_many(results: Path, count: int) -> None:
    """So many records with their scores: tasks, defenses and attacks in turn."""
    source = random.Random(count)
    for task, defense, attack in islice(product(TASKS, DEFENSES, ATTACKS), count):
        level = source.random()
        values = [min(1.0, max(0.0, source.gauss(level, 0.1))) for _ in range(8)]
        words = SENTENCES[0].split()
        recovered = " ".join(word for word in words if source.random() < level)
        example = Example(index=0, truth=SENTENCES[0], recovered=recovered)
        record = make_record(task, attack, defense, snapshots=make_snapshots(8), told=["labels"])
        store(results, record, make_score(dict.fromkeys(METRICS, values), [example]))


def many_catalog() -> Catalog:
    """What a registry would tell about them."""
    return Catalog(
        (SuiteRow("many", "Many results."),),
        tuple(
            TaskRow(
                task,
                FAMILIES[place % 3],
                "A task.",
                batch_size=int(task.rsplit("-b", 1)[1]),
                model="builtin:model",
                panel=PANEL,
            )
            for place, task in enumerate(TASKS)
        ),
        (
            *(SubmissionRow("attack", name, "An attack.") for name in ATTACKS),
            *(SubmissionRow("defense", name, "A defense.") for name in DEFENSES),
        ),
    )
