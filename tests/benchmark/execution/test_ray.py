"""The Ray engine on a real cluster: the same records as on one machine, whatever is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import psutil
import pytest

from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.engines.ray import RayEngine
from benchmark.files import file_digest
from benchmark.results.schema import Record, Status
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell
from tests.benchmark.cli.test_cli import stable
from tests.benchmark.runs.federated_setup import comparable, run_trials, small_task, small_trial
from tests.benchmark.runs.test_utility import tiny
from tests.faults.test_lost_server import busy_server_killed
from tests.harness import FEW, Quiet
from tests.ray_cluster import (
    Catalogs,
    TestCluster,
    busy_slots,
    cells_of,
    on_cluster,
    ray_cluster,
    sleepers,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, plugins: Path) -> Iterator[TestCluster]:
    with ray_cluster(tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture(scope="module")
def remote(cluster: TestCluster) -> Iterator[tuple[RayEngine, list[str]]]:
    """An engine on one node, after the tests that need nodes of their own."""
    cache = cluster.add()
    with on_cluster(cluster) as running:
        yield running
    assert _files(cache) == []  # neither text nor weights stay on a node


def run(engine: Engine, cells: list[Cell], seconds: float = 60.0) -> list[Record]:
    return Run(engine, Quiet(), seconds, 4000.0, "cpu").run(cells)


def test_a_node_with_a_weaker_sandbox_is_refused(
    cluster: TestCluster, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None,
) -> None:  # fmt: skip
    if sandbox.sandbox_kind() == sandbox.AUDIT_HOOK:
        pytest.skip("there is no weaker sandbox than the one here")
    run(engine, cells_of(catalogs, tmp_path / "here", "random"))  # makes the snapshots
    cluster.add(LEAKBOARD_SANDBOX=sandbox.AUDIT_HOOK)
    with (
        pytest.raises(UserError, match=r"its sandbox is audit-hook, and at least .* is asked"),
        on_cluster(cluster),
    ):
        pass
    with on_cluster(cluster, sandbox.AUDIT_HOOK) as (weak, _):  # told otherwise
        (record,) = run(weak, cells_of(catalogs, tmp_path / "there", "random"))
    assert record.status is Status.OK
    assert record.provenance.sandbox == sandbox.AUDIT_HOOK
    cluster.lose_all()


soak = pytest.mark.skipif("LEAKBOARD_SOAK" not in os.environ, reason="make soak tries it")


@soak
def test_a_node_whose_cache_cannot_be_written_is_refused(cluster: TestCluster) -> None:
    cluster.add(LEAKBOARD_CACHE="/proc/nowhere")
    with (
        pytest.raises(UserError, match=r"takes no more jobs: \w+Error: .*'/proc/nowhere"),
        on_cluster(cluster),
    ):
        pass
    cluster.lose_all()


def test_records_are_those_of_the_local_engine(
    remote: tuple[RayEngine, list[str]], engine: LocalEngine, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None, cache: Path,
) -> None:  # fmt: skip
    """Snapshots, cells, a training and a federated one: every kind of job that a run has."""
    there, told = remote
    plan = "bag_of_words,public_sentences,naughty[way=second]", "gaussian_noise"
    run(there, cells_of(catalogs, tmp_path / "there", *plan))
    trained = train(there, catalogs, tmp_path / "trained there")
    made = take_snapshots(cache)
    run(engine, cells_of(catalogs, tmp_path / "here", *plan))
    assert len(made) == FEW
    assert made == take_snapshots(cache)
    assert len(stable(tmp_path / "here")) == 3
    assert stable(tmp_path / "here") == stable(tmp_path / "there")
    assert trained == train(engine, catalogs, tmp_path / "trained here")
    assert told == []
    (node,) = [node for node in there.nodes.values() if node.sent]
    assert set(node.sent.values()) == {1}  # each public file went there once
    assert node.facts is not None
    assert not list(Path(node.facts.cache).rglob("truths"))


def test_limits_hold_there_too(
    remote: tuple[RayEngine, list[str]], catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    limits = {"hang": (3.0, Status.TIMEOUT), "memory": (60.0, Status.OUT_OF_MEMORY)}
    for way, (seconds, status) in limits.items():
        cells = cells_of(catalogs, tmp_path, f"naughty[way={way}]")
        (over,) = Run(remote[0], Quiet(), seconds, 1200.0, "cpu").run(cells)
        assert over.status is status, over.reason


def test_a_node_may_join_and_costs_its_running_cell_when_it_is_lost(
    cluster: TestCluster, remote: tuple[RayEngine, list[str]], catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None,
) -> None:  # fmt: skip
    engine, told = remote
    cluster.add()
    wait_for(lambda: len(engine.devices) == 2)
    cells = cells_of(catalogs, tmp_path, sleepers(6, 1.5))
    assert len(cells) == 6

    class LosesANode(Quiet):
        def ended(self, cell: Cell, record: Record) -> None:
            cluster.lose(-1)

    records = Run(engine, LosesANode(), 60.0, 4000.0, "cpu").run(cells)
    assert [record.status for record in records] == [Status.OK] * 6
    assert any("was lost" in sentence for sentence in told)
    assert len(told) <= 2  # the cell that ran there, and the slot
    assert cells_of(catalogs, tmp_path, sleepers(6, 1.5)) == []


def test_a_killed_fork_server_costs_no_cell(
    remote: tuple[RayEngine, list[str]], catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    with busy_server_killed() as below:
        (record,) = run(remote[0], cells_of(catalogs, tmp_path, sleepers(1, 1.5)))
    assert record.status is Status.OK, record.reason
    assert below
    assert psutil.wait_procs(below, timeout=10)[1] == []


@soak
def test_a_job_that_is_lost_again_and_again_is_recorded(
    remote: tuple[RayEngine, list[str]], catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    engine, _ = remote
    over, killed = threading.Event(), set[int]()

    def kill_busy_slots() -> None:
        while not over.wait(0.1):
            for process in busy_slots():
                killed.add(process.pid)
                process.kill()

    killer = threading.Thread(target=kill_busy_slots)
    killer.start()
    try:
        (record,) = run(engine, cells_of(catalogs, tmp_path, "naughty[way=hang]"))
    finally:
        over.set()
        killer.join()
    (next_one,) = run(engine, cells_of(catalogs, tmp_path, "random"))
    assert record.status is Status.ERROR
    assert "was lost" in record.reason
    assert "tried 3 times" in record.reason
    assert len(killed) == 3
    assert next_one.status is Status.OK


def wait_for(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Come back once something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def train(engine: Engine, catalogs: Catalogs, results: Path) -> list[dict[str, object]]:
    """A training and a federated one, without time and place."""
    tasks = [("none", tiny("mini/cola")), ("fedavg", small_task())]
    trials = [small_trial(task, catalogs[1], defense, results) for defense, task in tasks]
    records = run_trials(cast(LocalEngine, engine), trials)
    assert [record.status for record in records] == [Status.OK] * 2
    return [comparable(record) for record in records]


def take_snapshots(cache: Path) -> list[str]:
    """Digests of the stored snapshots, which are removed, so that they have to be made again."""
    found = sorted((cache / "snapshots").rglob("*gaussian_noise*/**/*.safetensors"))
    digests = [file_digest(path) for path in found]
    for path in found:
        path.unlink()
    return digests
