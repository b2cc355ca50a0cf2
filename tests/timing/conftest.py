"""Both sides of a ratio on one thread, so that a busy machine disturbs them alike."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fair(one_thread: None) -> None:
    """For every timing test."""
