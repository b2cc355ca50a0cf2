"""A fork server that is killed costs the job that it ran, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from benchmark.execution.engines.template import MODULE as TEMPLATE
from benchmark.results.schema import Status
from tests.harness import RunCells


def kill_busy_server(over: threading.Event, below: list[psutil.Process]) -> None:
    """Kill the fork server of this process that has a job; `below` are the job's processes."""
    while not over.wait(0.05):
        for child in psutil.Process().children(recursive=True):  # a server before its jobs
            with suppress(psutil.Error):
                if _is_server(child) and child.children():
                    time.sleep(1.0)
                    below += child.children(recursive=True)
                    child.kill()
                    return


def _is_server(process: psutil.Process) -> bool:
    """Bubblewrap has the server's name among its arguments, and the server below it, job or not.

    A server that was forked has the arguments of its template, as have the processes of its job.
    """
    program, *arguments = process.cmdline() or [""]
    if "benchmark.execution.forkserver" in arguments:
        return "bwrap" not in program
    above = [parent.cmdline() for parent in process.parents()[:2]]
    return [TEMPLATE in line for line in (arguments, *above)] == [True, True, False]


@contextmanager
def busy_server_killed() -> Iterator[list[psutil.Process]]:
    """The next fork server that has a job is killed; yields the job's processes."""
    over, below = threading.Event(), list[psutil.Process]()
    killer = threading.Thread(target=kill_busy_server, args=(over, below))
    killer.start()
    try:
        yield below
    finally:
        over.set()
        killer.join()


def test_a_killed_server_costs_one_job_and_leaves_no_process(run_cells: RunCells) -> None:
    assert [record.status for record in run_cells("random")] == [Status.OK]
    with busy_server_killed() as below:
        (record,) = run_cells("naughty[way=fork]", time_limit=60)
    assert record.status is Status.ERROR
    assert "the worker was lost" in record.reason
    assert [record.status for record in run_cells("bag_of_words")] == [Status.OK]
    assert len(below) >= 2
    assert psutil.wait_procs(below, timeout=10)[1] == []
