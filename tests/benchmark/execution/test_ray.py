"""The Ray engine on a real cluster: the same records as on one machine, whatever is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.local import LocalEngine
from benchmark.files import file_digest
from benchmark.results.schema import Record, Status
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Cell
from tests.benchmark.cli.test_cli import stable
from tests.benchmark.runs.federated_setup import comparable, run_trials, small_task, small_trial
from tests.benchmark.runs.test_utility import tiny
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


def run(engine: Engine, cells: list[Cell], seconds: float = 60.0) -> list[Record]:
    return Run(engine, Quiet(), seconds, 4000.0, "cpu").run(cells)


def test_records_are_those_of_the_local_engine(
    cluster: TestCluster, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path,
    few_snapshots: None, cache: Path,
) -> None:  # fmt: skip
    """Snapshots, cells, a training and a federated one: every kind of job that a run has."""
    node = cluster.add(cpus=1)
    here, there = tmp_path / "here", tmp_path / "there"
    plan = "bag_of_words,public_sentences,naughty[way=second]", "gaussian_noise"
    with on_cluster(cluster) as (remote, told):
        run(remote, cells_of(catalogs, there, *plan))
        trained = train(remote, catalogs, tmp_path / "trained there")
        limited = cells_of(catalogs, tmp_path, "naughty[way=hang],naughty[way=memory]")
        over = Run(remote, Quiet(), 3.0, 1200.0, "cpu").run(limited)
        (only,) = [n for n in remote.nodes.values() if n.slots]
    assert [record.status for record in over] == [Status.TIMEOUT, Status.OUT_OF_MEMORY]
    made = take_snapshots(cache)
    run(engine, cells_of(catalogs, here, *plan))
    assert len(made) == FEW
    assert made == take_snapshots(cache)
    assert len(stable(here)) == 3
    assert stable(here) == stable(there)
    assert trained == train(engine, catalogs, tmp_path / "trained here")
    assert told == []
    assert set(only.sent.values()) == {1}  # each public file went there once
    assert not [path for path in node.rglob("*") if path.is_file()]  # and nothing stayed


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


def test_a_node_that_is_lost_costs_its_running_cell_only(
    cluster: TestCluster, catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    cluster.add()
    cells = cells_of(catalogs, tmp_path, sleepers(6, 1.5))
    assert len(cells) == 6

    class LosesANode(Quiet):
        def ended(self, cell: Cell, record: Record) -> None:
            cluster.lose(1)

    with on_cluster(cluster) as (engine, told):
        assert len(engine.devices) == 2
        records = Run(engine, LosesANode(), 60.0, 4000.0, "cpu").run(cells)
    assert [record.status for record in records] == [Status.OK] * 6
    assert len(told) <= 2  # the cell that ran there, and the slot
    assert any("was lost" in sentence for sentence in told)
    assert cells_of(catalogs, tmp_path, sleepers(6, 1.5)) == []


def test_a_job_that_is_lost_again_and_again_is_recorded(
    cluster: TestCluster, catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    over, killed = threading.Event(), set[int]()

    def kill_busy_slots() -> None:
        while not over.wait(0.1):
            for process in busy_slots():
                killed.add(process.pid)
                process.kill()

    killer = threading.Thread(target=kill_busy_slots)
    with on_cluster(cluster) as (engine, _):
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


def test_a_node_with_a_weaker_sandbox_is_refused(
    cluster: TestCluster, catalogs: Catalogs, tmp_path: Path, few_snapshots: None
) -> None:
    if sandbox.sandbox_kind() == sandbox.AUDIT_HOOK:
        pytest.skip("there is no weaker sandbox than the one here")
    cluster.lose(0)
    cluster.add(LEAKBOARD_SANDBOX=sandbox.AUDIT_HOOK)
    with (
        pytest.raises(UserError, match=r"its sandbox is audit-hook, and at least .* is asked"),
        on_cluster(cluster),
    ):
        pass
    with on_cluster(cluster, sandbox.AUDIT_HOOK) as (engine, _):  # told otherwise
        (record,) = run(engine, cells_of(catalogs, tmp_path, "random"))
    assert record.status is Status.OK
    assert record.provenance.sandbox == sandbox.AUDIT_HOOK
    cluster.add()
    with on_cluster(cluster) as (engine, told):
        assert len(engine.devices) == 1
    assert [sentence for sentence in told if "takes no jobs" not in sentence] == []
