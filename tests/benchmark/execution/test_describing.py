"""Submissions that are not known yet are asked about side by side, and answer as one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmark.execution.describing import describer, submissions
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import Job, Outcome
from benchmark.paths import cache_in
from benchmark.plugins.catalog import find_submissions


def test_what_is_asked_side_by_side_is_what_each_says_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "defenses").mkdir()
    (tmp_path / "defenses" / "torn.py").write_text("raise ValueError('torn')\n")
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", str(tmp_path))
    asked: list[int] = []

    class Counting(LocalEngine):
        def run(self, jobs: Iterable[Job], finished: Callable[[Outcome], Iterable[Job]]) -> None:
            several = list(jobs)
            asked.append(len(several))
            super().run(several, finished)

    with Counting(["cpu", "cpu"], threads=1) as engine:
        with cache_in(tmp_path / "one"):
            together = submissions("defense", engine)
            first, asked[:] = list(asked), []
            assert submissions("defense", engine) == together
        assert asked == [1], "what is broken may have been repaired, and nothing else is asked"
        with cache_in(tmp_path / "two"):
            alone = find_submissions("defense", describer(engine))
    assert first == [len(together.entries) + 1]
    assert together == alone
    (torn,) = together.broken
    assert "torn" in torn.reason
