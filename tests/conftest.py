"""Shared fixtures: one cache for the whole test run, and the command as a user would call it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.harness"]
ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("LEAKBOARD_JOBS", "1")  # a test that needs two at once asks for them


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files marked `long` begin first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of our own, so that tests neither use nor touch the user's."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("LEAKBOARD_CACHE")
    os.environ["LEAKBOARD_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["LEAKBOARD_CACHE"]
    else:
        os.environ["LEAKBOARD_CACHE"] = before


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def leakboard() -> Command:
    """Run the command line; keyword arguments are environment variables.

    Only submissions that a test names are there beside ours: another test's broken ones would
    change the exit code.
    """

    def run(*arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
        given = {name: str(value) for name, value in environment.items()}
        variables = os.environ | {"LEAKBOARD_SUBMISSIONS": ""} | given
        return subprocess.run(
            [sys.executable, "-m", "benchmark.cli", *map(str, arguments)],
            capture_output=True, text=True, check=False, cwd=ROOT, env=variables, timeout=600,
        )  # fmt: skip

    return run


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny models lose more than they gain by several threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
