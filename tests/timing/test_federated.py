"""A round of a federated training costs hardly more than the local training of its clients."""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmark.execution import federated_client
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import Assignment, ClientSettings, Job, Outcome, RoundJob
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import choose
from benchmark.runs.federated_run import JobLimits, Simulation
from benchmark.status import Status

CLIENTS = 10
TRIES = 5
MOST = 1.3


def simulation(catalogs: tuple[Catalog, Catalog], jobs: int) -> Simulation:
    """Ten clients of the real size, who all take part in every round."""
    task = all_tasks()["mini/agnews-fl"]
    assert task.federation is not None
    few = replace(task.federation, clients=CLIENTS, sampled=CLIENTS, checks=1, rounds=TRIES + 2)
    task = replace(task, federation=few)
    defense = choose(catalogs[1], "defense", "fedavg")[0]
    return Simulation(task, defense, 0, f"timing-{jobs}", JobLimits(60.0, 8000.0, jobs), "timing")


def bare(rounds: Simulation, folder: Path) -> Participants:
    """The same clients in this process, with everything loaded."""
    (folder / "model").symlink_to(load_task(rounds.task).model_directory)
    work = RoundJob(
        client=ClientSettings.of(rounds.task), defense=rounds.defense.calls(), seed=rounds.seed,
        round=0, received="", clients=(),
    )  # fmt: skip
    given = Assignment(
        work=work, inbox=folder, outbox=folder, device="cpu", threads=1, time_limit=60.0,
        memory_limit_mb=8000.0,
    )  # fmt: skip
    return federated_client.Participants(work, given, torch.device("cpu"))


Participants = federated_client.Participants


@pytest.mark.usefixtures("one_thread")
def test_a_round_through_the_engine_costs_little_more_than_bare_training(
    engine: LocalEngine, catalogs: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    """Best of several, taken in turn: whatever else the machine does slows both alike."""
    rounds = simulation(catalogs, 1)
    alone = bare(rounds, tmp_path)
    data = load_task(rounds.task).federated_data(0).clients
    jobs = list(rounds.start())
    through: list[float] = []
    plain: list[float] = []

    def ended(outcome: Outcome) -> list[Job]:
        assert outcome.status is Status.OK
        return []

    for _ in range(TRIES):
        items, _ = rounds.client_files(range(CLIENTS), rounds.checkpoint.round)
        start = time.perf_counter()
        for item, rows in zip(items, data, strict=True):
            client, _ = alone.enter(item, 0)
            alone.one_round(client, rows)
        plain.append(time.perf_counter() - start)
        following: list[Job] = []
        start = time.perf_counter()
        for job in jobs:
            outcome = engine.one(replace(job, finished=ended))
            following += job.finished(outcome)
        through.append(time.perf_counter() - start)
        jobs = following
    ratio = min(through[1:]) / min(plain[1:])
    print(f"bare {min(plain):.3f} s, through the engine {min(through):.3f} s, ratio {ratio:.2f}")
    assert ratio < MOST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
