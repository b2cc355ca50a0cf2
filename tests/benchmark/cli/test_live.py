"""Pages while a run goes on: made beside it, refreshed as cells end, and never in its way."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from benchmark.cli.live import LiveSite, Settings
from tests.conftest import Command
from tests.leaderboard.samples import make_record, store

CONTENT = {"suites": (), "entries": (), "broken": ()}


def settings(tmp_path: Path, **changes: object) -> Settings:
    given = {"total": 2, "first_seconds": 0.0, "every_seconds": 0.0, "share": 1.0} | changes
    return Settings(tmp_path / "results", tmp_path / "site", CONTENT, **given)  # type: ignore[arg-type]


def wait_for(page: Path, words: str) -> str:
    """The page's text, once it has the words."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if page.exists() and words in (text := page.read_text()):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{page} never said {words!r}")


def test_a_page_grows_with_the_run_and_ends_unmarked(tmp_path: Path) -> None:
    page = tmp_path / "site" / "index.html"
    with LiveSite(settings(tmp_path), done=0) as site:
        for place, attack in enumerate(("random", "dager"), start=1):
            store(tmp_path / "results", make_record(task="no/longer", attack=attack))
            site.ended()
            text = wait_for(page, f"{place} of 2 cells")
            assert 'http-equiv="refresh"' in text
            assert attack in text
    assert site.fine
    assert "Running:" not in page.read_text()
    assert 'http-equiv="refresh"' not in page.read_text()


def test_pages_stay_as_they_are_where_more_follows(tmp_path: Path) -> None:
    """What follows renders anyway: the end of the run is no reason to."""
    page = tmp_path / "site" / "index.html"
    with LiveSite(settings(tmp_path, more=True, every_seconds=600.0), done=0) as site:
        store(tmp_path / "results", make_record(task="no/longer"))
        site.ended()
        wait_for(page, "1 of 2 cells")
        site.ended()
    assert site.fine
    assert "1 of 2 cells" in page.read_text()


def test_an_interrupted_run_leaves_pages_that_do_not_wait_for_it(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record(task="no/longer"))
    with pytest.raises(KeyboardInterrupt), LiveSite(settings(tmp_path, more=True), done=1):
        raise KeyboardInterrupt
    assert "Running:" not in (tmp_path / "site" / "index.html").read_text()


def test_failing_pages_are_named_once_and_hold_nothing_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "site").write_text("a file where the pages should go")
    with LiveSite(settings(tmp_path), done=0) as site:
        for _ in range(3):
            site.ended()
            time.sleep(0.2)
    assert not site.fine
    complaints = capfd.readouterr().err.strip().splitlines()
    assert len(complaints) == 1
    assert str(tmp_path / "site") in complaints[0]


def test_news_never_block_the_run(tmp_path: Path) -> None:
    """Nobody reads, and the pipe fills: telling still returns at once."""
    site = LiveSite(settings(tmp_path), done=0)
    reader, writer = multiprocessing.get_context("spawn").Pipe(duplex=False)
    os.set_blocking(writer.fileno(), False)
    site._told = writer
    start = time.monotonic()
    for _ in range(20_000):
        site.ended()
    assert time.monotonic() - start < 5
    reader.close()
    site.ended()  # and nobody is there at all


def test_a_folder_that_is_no_site_is_refused(leakboard: Command, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "diary.txt").write_text("mine")
    refused = leakboard("run", "--task", "cola", "--site", tmp_path / "own")
    assert refused.returncode == 2
    assert "is not empty and not a former site" in refused.stderr
