"""How many jobs run at once, and with how many threads."""

from __future__ import annotations

import os

import pytest

from benchmark.errors import UserError
from benchmark.execution.devices import choose


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for name in ("LEAKBOARD_JOBS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("jobs", [0, 1, 3, 8, 50])
def test_jobs_share_the_cores(jobs: int) -> None:
    devices, threads = choose("cpu", jobs)
    assert len(devices) == min(jobs or 8, 8)
    assert threads == 8 // len(devices)


def test_the_environment_says_what_the_command_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOARD_JOBS", "2")
    assert choose("cpu", 0) == (["cpu"] * 2, 4)
    assert choose("cpu", 4) == (["cpu"] * 4, 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")  # the second is of threads within threads
    assert choose("cpu", 0) == (["cpu"] * 2, 3)
    assert choose("cpu", 8) == (["cpu"] * 8, 1)


def test_a_number_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOARD_JOBS", "many")
    with pytest.raises(UserError, match="LEAKBOARD_JOBS is 'many'"):
        choose("cpu", 0)
