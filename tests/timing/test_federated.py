"""A round of a federated training costs hardly more than the local training of its clients."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from benchmark.execution import federated_client
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import Assignment, ClientSettings, Job, Outcome, RoundJob
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import choose
from benchmark.runs.federated_run import JobLimits, Simulation
from benchmark.status import Status
from tests.timing.ratios import only_timed

CLIENTS = 10
ROUNDS = 20
AT_MOST = 1.3
"""Times the bare local training of the clients."""


def simulation(catalogs: tuple[Catalog, Catalog]) -> Simulation:
    """Ten clients of the real size, who all take part in every round."""
    task = all_tasks()["mini/agnews-fl"]
    assert task.federation is not None
    few = replace(task.federation, clients=CLIENTS, sampled=CLIENTS, checks=1, rounds=ROUNDS + 2)
    task = replace(task, federation=few)
    defense = choose(catalogs[1], "defense", "fedavg")[0]
    return Simulation(task, defense, 0, "timing", JobLimits(60.0, 8000.0, 1), "timing")


def bare(rounds: Simulation, folder: Path) -> federated_client.Participants:
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


def processor_seconds() -> float:
    """Of this process, its workers and whatever those have started and waited for."""
    total = time.process_time()
    for child in psutil.Process().children(recursive=True):
        used = child.cpu_times()
        total += used.user + used.system + used.children_user + used.children_system
    return total


def ended(outcome: Outcome) -> list[Job]:
    """The round itself takes the outcome in, so that all of its work is measured."""
    assert outcome.status is Status.OK
    return []


def test_a_round_through_the_engine_costs_little_more_than_bare_training(
    benchmark: BenchmarkFixture,
    engine: LocalEngine,
    catalogs: tuple[Catalog, Catalog],
    tmp_path: Path,
) -> None:
    """Both in turn, by processor time, and of each the median; the first round warms both."""
    only_timed(benchmark)
    rounds = simulation(catalogs)
    alone, data = bare(rounds, tmp_path), load_task(rounds.task).federated_data(0).clients
    through: list[float] = []
    plain: list[float] = []
    jobs = list(rounds.start())

    def measure() -> None:
        nonlocal jobs
        items, _ = rounds.client_files(range(CLIENTS), rounds.checkpoint.round)
        start = processor_seconds()
        for item, rows in zip(items, data, strict=True):
            alone.one_round(alone.enter(item, 0)[0], rows)
        between = processor_seconds()
        outcomes = [engine.one(replace(job, finished=ended)) for job in jobs]
        jobs = [more for o, job in zip(outcomes, jobs, strict=True) for more in job.finished(o)]
        plain.append(between - start)
        through.append(processor_seconds() - between)

    benchmark.pedantic(measure, rounds=ROUNDS)
    ratio = median(through[1:]) / median(plain[1:])
    benchmark.extra_info["ratio"] = round(ratio, 2)
    print(f"\n{median(through[1:]):.2f} s instead of {median(plain[1:]):.2f} s: {ratio:.2f} times")
    assert ratio < AT_MOST
