"""A real Ray cluster on this machine: a head without CPUs, and nodes with a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmark.execution import sandbox
from benchmark.execution.engines.nodes import Request
from benchmark.execution.engines.ray import RayEngine
from benchmark.plugins.catalog import Catalog
from benchmark.runs.plan import Cell, Selection, plan_cells

Catalogs = tuple[Catalog, Catalog]
STORE = 100 << 20
"""Bytes of each node's object store."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_worker_niceness": "0",
}


class TestCluster:
    """Nodes that can be added and lost."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False} | self._common(),
        )
        self._nodes: list[Any] = []

    @property
    def address(self) -> str:
        """Where to join."""
        return str(self._cluster.address)

    def _common(self) -> dict[str, Any]:
        return {"object_store_memory": STORE}

    def add(self, cpus: int = 1, **environment: object) -> Path:
        """A node with a cache of its own, unless it is told of another; returns the cache."""
        cache = self.folder / f"node-{len(self._nodes)}"
        variables = {"LEAKBOARD_CACHE": cache} | environment
        given = {name: str(value) for name, value in variables.items()}
        node = self._cluster.add_node(num_cpus=cpus, env_vars=given, **self._common())
        self._nodes.append(node)
        return Path(given["LEAKBOARD_CACHE"])

    def lose(self, number: int) -> None:
        """A node is gone at once, without a word, and all of its processes."""
        if (node := self._nodes[number]) is not None:
            self._nodes[number] = None
            self._cluster.remove_node(node, allow_graceful=False)

    def lose_all(self) -> None:
        """Every node but the head."""
        for number in range(len(self._nodes)):
            self.lose(number)

    def close(self) -> None:
        """Lose all nodes, and the head."""
        import ray

        ray.shutdown()  # of a test that was interrupted
        self._cluster.shutdown()


@contextmanager
def ray_cluster(folder: Path) -> Iterator[TestCluster]:
    """A cluster that is gone afterwards, with everything that ran in it."""
    os.environ |= QUIET  # read when Ray is imported
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'leakboard[cluster]'")
    cluster = TestCluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()
        below = psutil.Process().children(recursive=True)
        left = [p for p in below if _is_of_ray(p)]
        for process in psutil.wait_procs(left, timeout=10)[1]:
            process.kill()


def busy_slots() -> list[psutil.Process]:
    """Processes of the slots below this test that have a job."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if _named(process, "ray::RaySlot.run")]


def orphans_of_ray() -> Iterator[psutil.Process]:
    """Ray's processes that have lost their parent, on the whole machine."""
    return (p for p in psutil.process_iter(["ppid"]) if p.info["ppid"] == 1 and _is_of_ray(p))


def _is_of_ray(process: psutil.Process) -> bool:
    return _named(process, "raylet") or _named(process, "ray::") or _named(process, "gcs_server")


def _named(process: psutil.Process, name: str) -> bool:
    try:
        return name in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def on_cluster(
    cluster: TestCluster, weakest: str = "", jobs: int = 0
) -> Iterator[tuple[RayEngine, list[str]]]:
    """An engine, and what it tells of its nodes."""
    told: list[str] = []
    request = Request("cpu", weakest_sandbox=weakest or sandbox.sandbox_kind())
    with RayEngine(cluster.address, request, jobs=jobs, notice=told.append) as engine:
        yield engine, told


def cells_of(catalogs: Catalogs, results: Path, attack: str, defense: str = "none") -> list[Cell]:
    """Cells of one task that are not there yet."""
    cells = plan_cells(Selection("mini", "mini/cola", attack, defense), *catalogs, results)
    return [cell for cell in cells if not cell.cached]


def sleepers(count: int, seconds: float = 0.5) -> str:
    """Attacks that wait, each a cell of its own."""
    return ",".join(f"sleeper[seconds={seconds},number={n}]" for n in range(1, count + 1))
