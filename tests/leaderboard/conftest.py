"""A realistic results directory for the tests of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leaderboard.render.pages import render_pages
from leaderboard.render.site import render
from leaderboard.views.timing import load_timings
from tests.leaderboard.browsing import started
from tests.leaderboard.hostile import hostile_board, write_hostile_timings
from tests.leaderboard.samples import sample_catalogue, write_sample_results

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """A headless Chromium."""
    yield from started()


@pytest.fixture(scope="session")
def sample_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records and scores of several tasks, attacks, defenses and kinds of failure."""
    results = tmp_path_factory.mktemp("results")
    write_sample_results(results)
    return results


@pytest.fixture(scope="session")
def sample_site(sample_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site drawn from the sample results: its root folder."""
    out = tmp_path_factory.mktemp("sites") / "site"
    return render(sample_results, out, sample_catalogue()).parent


@pytest.fixture(scope="session")
def hostile_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All pages of results and a catalog whose every text is a script."""
    timing = write_hostile_timings(tmp_path_factory.mktemp("timing"))
    return render_pages(hostile_board(), timing=load_timings([timing]))
