"""What only a browser knows: overflow, console, contrast, print, hostile records, axe."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leaderboard.render.publish import publish
from leaderboard.render.site import render
from leaderboard.render.slugs import cell_page, submission_page, task_page
from tests.audit_samples import sample_report
from tests.leaderboard import hostile
from tests.leaderboard.browser_scripts import CONTRASTS, TOO_WIDE, WITNESS
from tests.leaderboard.browsing import console, leaving, requested, resize, unfold, visible
from tests.leaderboard.samples import HOSTILE, sample_catalogue

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CELL = cell_page(("mini/cola-b1", 1, "none", "dager", 0))
PAGES = (
    "index.html",
    "matrix/mini.html",
    "tasks/mini.cola-b1.html",
    CELL,
    "tasks/mini.enron-b8.html",
    "submissions/attack-lamp.html",
    "submissions/defense-none.html",
    "federated.html",
    "papers.html",
    "data.html",
    "metrics.html",
)
SHEET = 718
"""Pixels of an A4 sheet between the margins that Chromium leaves."""


@pytest.mark.parametrize("width", [390, 1152, 1440])  # at 1152 matrices leave their boxes
def test_pages_do_not_overflow(browser: Chrome, sample_site: Path, width: int) -> None:
    resize(browser, width)
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
        unfold(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(browser: Chrome, sample_site: Path, scheme: str) -> None:
    resize(browser, 1440, scheme)
    for page in PAGES[:6]:
        browser.get((sample_site / page).as_uri())
        assert browser.execute_script(CONTRASTS) == [], page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_audit_is_readable_on_a_phone(browser: Chrome, tmp_path: Path, scheme: str) -> None:
    console(browser)
    resize(browser, 390, scheme)
    browser.get(sample_report().save(tmp_path / "report.html").as_uri())
    unfold(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.execute_script(CONTRASTS) == []
    assert console(browser) == []


def test_the_console_is_silent_and_nothing_is_requested(browser: Chrome, sample_site: Path) -> None:
    console(browser)
    requested(browser)
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
    assert console(browser) == []
    sent = requested(browser)
    assert len(sent) >= len(PAGES)
    assert leaving(sent, sample_site) == []


HOSTILE_PAGES = (
    "index.html",
    "suites/mini.html",
    "matrix/mini.html",
    task_page(hostile.TASK),
    task_page(hostile.FEDERATED_TASK),
    submission_page("attack", HOSTILE),
    submission_page("defense", HOSTILE),
    "papers.html",
    "federated.html",
    "metrics.html",
    "data.html",
    "timing.html",
)


def test_no_script_of_a_record_runs_on_any_page(
    browser: Chrome, hostile_pages: dict[str, str], tmp_path: Path
) -> None:
    site = tmp_path / "site"
    cells = sorted(name for name in hostile_pages if name.startswith("cells/"))
    publish({**hostile_pages, "bare.html": f"<!DOCTYPE html><title>x</title>{HOSTILE}"}, site)
    witness = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WITNESS})
    browser.get((site / "bare.html").as_uri())
    assert browser.execute_script("return window.ran") == "leak"  # the witness would see it
    console(browser)
    requested(browser)
    for page in (*HOSTILE_PAGES, *cells):
        browser.get((site / page).as_uri())
        unfold(browser)
        for field in browser.find_elements("css selector", ".filters select"):
            field.find_elements("css selector", "option")[-1].click()
        assert browser.execute_script("return window.ran ?? null") is None, page
        assert console(browser) == [], page  # a script that the policy stops would be logged
    assert "alert('leak')" in browser.find_element("css selector", "main").text
    assert leaving(requested(browser), site) == []
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", witness)


def test_the_style_is_applied(browser: Chrome, sample_site: Path) -> None:
    """A wrong hash in the policy would leave a bare page without any error elsewhere."""
    browser.get((sample_site / "matrix" / "mini.html").as_uri())
    width = "return getComputedStyle(document.querySelector('.matrix td')).textAlign"
    assert browser.execute_script(width) == "center"
    browser.get((sample_site / CELL).as_uri())
    display = "return getComputedStyle(document.querySelector('dl.facets')).display"
    assert browser.execute_script(display) == "grid"


def test_scores_are_in_sight_on_a_phone(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 390)
    browser.get((sample_site / "index.html").as_uri())
    for table in ("attack", "defense"):
        score = browser.find_element("css selector", f"#{table}-table tr[data-row] td.number b")
        assert score.is_displayed()
        assert 0 < score.rect["x"] <= 390 - score.rect["width"]


def test_a_printed_page_fits_its_sheet(browser: Chrome, sample_site: Path) -> None:
    resize(browser, SHEET)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
        unfold(browser)
        assert browser.execute_script(TOO_WIDE, SHEET) == [], page
        assert visible(browser, ".filters, .files, .toggle") == [], page
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def violations(browser: Chrome) -> list[tuple[str, str]]:
    """What axe-core finds on the page that is serious or critical."""
    package = importlib.util.find_spec("axe_core_python")
    assert package is not None
    assert package.origin is not None
    browser.execute_script((Path(package.origin).parent / "axe.min.js").read_text("utf-8"))
    run = "axe.run({resultTypes: ['violations']}).then(arguments[0])"
    return [
        (each["id"], each["nodes"][0]["html"][:120])
        for each in browser.execute_async_script(run)["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(browser: Chrome, sample_site: Path, scheme: str) -> None:
    resize(browser, 1280, scheme)
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
        unfold(browser)
        assert violations(browser) == [], page


def test_a_page_of_a_running_run_brings_the_news_by_itself(
    browser: Chrome, sample_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content policy lets a page reload itself, and the last one stays as it is."""
    monkeypatch.setattr("leaderboard.render.pages.REFRESH_SECONDS", 1)
    out = tmp_path / "site"
    page = render(sample_results, out, sample_catalogue(), running=(1, 2))
    console(browser)
    browser.get(page.as_uri())
    assert "Running: 1 of 2 cells" in browser.find_element("css selector", "main").text
    render(sample_results, out, sample_catalogue())
    deadline = time.monotonic() + 20
    while "Running:" in browser.execute_script("return document.body.innerText"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert console(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_federated_methods_and_timing_are_readable(
    browser: Chrome, hostile_pages: dict[str, str], tmp_path: Path, scheme: str
) -> None:
    """On pages that the sample results leave empty."""
    publish(hostile_pages, tmp_path / "site")
    for page in ("federated.html", "timing.html", task_page(hostile.FEDERATED_TASK)):
        resize(browser, 390, scheme)
        browser.get((tmp_path / "site" / page).as_uri())
        unfold(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, page
        assert browser.execute_script(CONTRASTS) == [], page
        assert violations(browser) == [], page
