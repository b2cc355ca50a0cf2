"""What only a browser knows: overflow, console, contrast, sorting, filters, help, the viewer."""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pytest

from leaderboard.render.publish import publish
from leaderboard.render.site import render
from leaderboard.render.slugs import cell_page, submission_page, task_page
from tests.audit_samples import sample_report
from tests.leaderboard import hostile
from tests.leaderboard.browser_scripts import CONTRASTS, SCROLLED, WITNESS
from tests.leaderboard.samples import HOSTILE, sample_catalogue

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
WebDriverException = pytest.importorskip("selenium.common").WebDriverException
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium with chromedriver")

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """A headless chromium that records its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    except WebDriverException as error:
        pytest.skip(f"Chromium does not start on this machine: {(error.msg or '')[:100]}")
    yield driver
    driver.quit()


def resize(browser: Chrome, width: int, scheme: str = "light", height: int = 900) -> None:
    """Emulate a viewport, as windows have a least width, and a color scheme."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize("width", [390, 1152, 1440])  # at 1152 matrices leave their boxes
def test_pages_do_not_overflow(browser: Chrome, sample_site: Path, width: int) -> None:
    resize(browser, width)
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(browser: Chrome, sample_site: Path, scheme: str) -> None:
    resize(browser, 1440, scheme)
    for page in PAGES[:6]:
        browser.get((sample_site / page).as_uri())
        assert browser.execute_script(CONTRASTS) == [], page


def console(browser: Chrome) -> list[object]:
    """What the browser logged since the last call."""
    entries: list[object] = browser.get_log("browser")
    return entries


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_audit_is_readable_on_a_phone(browser: Chrome, tmp_path: Path, scheme: str) -> None:
    console(browser)
    resize(browser, 390, scheme)
    browser.get(sample_report().save(tmp_path / "report.html").as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.execute_script(CONTRASTS) == []
    assert console(browser) == []


def requested(browser: Chrome) -> list[str]:
    """The addresses that pages asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = (each for each in events if each["method"] == "Network.requestWillBeSent")
    return [each["params"]["request"]["url"] for each in sent]


def leaving(urls: list[str], site: Path) -> list[str]:
    """The addresses outside of a site."""
    return [url for url in urls if not url.startswith((site.as_uri(), "data:,"))]


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
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
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


def column(browser: Chrome, index: int) -> list[str]:
    """The sort values of a column of the first matrix."""
    script = """
    return [...document.querySelector(".matrix").tBodies[0].rows].map(
      (row) => row.cells[arguments[0]].dataset.value);
    """
    values: list[str] = browser.execute_script(script, index)
    return values


def test_a_matrix_sorts_by_any_column(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 1440)
    browser.get((sample_site / "matrix" / "mini.html").as_uri())
    before = column(browser, 0)
    buttons = browser.find_elements("css selector", ".matrix th button")
    for descending in (True, False):
        buttons[2].click()
        numbers = [float(value) for value in column(browser, 2)]
        assert len(numbers) > 1
        assert numbers == sorted(numbers, reverse=descending)
    buttons[0].click()
    assert column(browser, 0) == before  # the first column brings the natural order back
    header = browser.find_element("css selector", ".matrix th")
    assert header.get_attribute("aria-sort") == "ascending"


def select(browser: Chrome, name: str, value: str) -> None:
    """Choose a value of a filter, as a reader does."""
    field = browser.find_element("css selector", f".filters select[name={name}]")
    field.find_element("css selector", f"option[value='{value}']").click()


def press(browser: Chrome, what: str) -> None:
    """Click the first element that a selector finds, wherever the page is scrolled to."""
    browser.execute_script("arguments[0].click()", browser.find_element("css selector", what))


def visible(browser: Chrome, what: str) -> list[str]:
    """The text of the visible elements that a selector finds."""
    found = browser.find_elements("css selector", what)
    return [element.text for element in found if element.is_displayed()]


def test_filters_are_kept_in_the_address(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 1440)
    page = (sample_site / "index.html").as_uri()
    browser.get(page)
    attacks = "#attack-table tr[data-row] th"
    everything = visible(browser, attacks)
    select(browser, "family", "classification")
    select(browser, "baseline", "no")
    shown = visible(browser, attacks)
    assert 0 < len(shown) < len(everything)
    assert not any("baseline" in name for name in shown)
    assert [
        each.split("\n")[0].split(" ")[0] for each in visible(browser, "#attack-table tr.family")
    ] == ["Classification"]
    address = browser.current_url
    assert address.endswith("#family=classification&baseline=no")
    browser.get("about:blank")
    browser.get(address)
    assert visible(browser, attacks) == shown
    browser.find_element("css selector", ".filters button").click()
    WebDriverWait(browser, 5).until(lambda b: visible(b, attacks) == everything)


def test_a_matrix_filters_lines_and_columns(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "matrix" / "mini.html").as_uri() + "#task=mini/cola-b1&baseline=no")
    assert set(visible(browser, ".matrix tbody th")) == {"cola-b1"}
    heads = " ".join(visible(browser, ".matrix thead th"))
    assert "dager" in heads
    assert "prior_only" not in heads
    browser.get((sample_site / "matrix" / "mini.html").as_uri() + "#defense=prune")
    assert "dpsgd" not in " ".join(visible(browser, ".matrix thead th"))


def test_variants_are_folded_until_asked_for(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "index.html").as_uri())
    names = "#attack-table tr.variant th"
    assert visible(browser, names) == []
    press(browser, "[data-toggle=attack-table]")
    assert any("loss=l2l1" in name for name in visible(browser, names))
    assert browser.current_url.endswith("#variants=shown")


def test_families_head_the_results_of_a_submission(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "submissions" / "attack-lamp.html").as_uri())
    assert "Classification" in visible(browser, "tr.family th")


def test_scores_are_in_sight_on_a_phone(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 390)
    browser.get((sample_site / "index.html").as_uri())
    for table in ("attack", "defense"):
        score = browser.find_element("css selector", f"#{table}-table tr[data-row] td.number b")
        assert score.is_displayed()
        assert 0 < score.rect["x"] <= 390 - score.rect["width"]


def test_a_printed_page_fits_its_sheet(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 740)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.get((sample_site / "index.html").as_uri())
    tables = "return [...document.querySelectorAll('table.cards')].map((t) => t.offsetWidth)"
    widths = browser.execute_script(tables)
    assert len(widths) == 2
    assert 300 < min(widths) <= max(widths) <= 740
    assert visible(browser, ".filters, .files") == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_suites_are_tabs(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "index.html").as_uri())
    first, second = browser.find_elements("css selector", ".tabs a")
    assert first.get_attribute("aria-current") == "page"
    second.click()
    assert browser.current_url.endswith("/suites/paper.html")
    assert "no results yet" in browser.find_element("css selector", "main").text


def test_columns_explain_themselves_to_pointer_and_keyboard(
    browser: Chrome, sample_site: Path
) -> None:
    resize(browser, 1280)
    browser.get((sample_site / "index.html").as_uri())
    head = browser.find_elements("css selector", "#attack-table th button")[4]
    webdriver.ActionChains(browser).move_to_element(head).perform()
    tip = browser.find_element("css selector", "#tip")
    assert "longest common subsequence" in tip.text
    webdriver.ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()
    browser.execute_script("arguments[0].focus()", head)
    assert "longest common subsequence" in tip.text
    assert head.get_attribute("aria-describedby") == "tip"
    head.send_keys(Keys.TAB)
    assert "longest common subsequence" not in tip.text


def test_the_viewer_steps_through_snapshots(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "tasks" / "mini.cola-b1.html").as_uri())
    truths = ".viewer .truth"
    first = visible(browser, truths)
    assert len(first) == 1
    press(browser, ".stepper button:nth-of-type(2)")
    second = visible(browser, truths)
    assert len(second) == 1
    assert first != second
    assert "example 2 of 3" in visible(browser, ".stepper")[0]


def test_downloads_lead_to_files(browser: Chrome, sample_site: Path) -> None:
    for page in ("index.html", "data.html"):
        browser.get((sample_site / page).as_uri())
        links = browser.find_elements("css selector", "a[download]")
        assert links
        for link in links:
            file = Path(unquote(urlparse(link.get_attribute("href") or "").path))
            assert file.stat().st_size > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(browser: Chrome, sample_site: Path, scheme: str) -> None:
    resize(browser, 1280, scheme)
    package = importlib.util.find_spec("axe_core_python")
    assert package is not None
    assert package.origin is not None
    script = (Path(package.origin).parent / "axe.min.js").read_text("utf-8")
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.execute_script(script)
        found = browser.execute_async_script("axe.run().then(arguments[0])")
        poor = [
            (each["id"], each["nodes"][0]["html"][:120])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert poor == [], page


def test_task_names_and_heads_stay_in_sight(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 390, height=400)
    browser.get((sample_site / "matrix" / "mini.html").as_uri())
    aside, down, left, width, top = browser.execute_script(SCROLLED)
    assert (aside, down >= 0) == (200, True)
    assert abs(left) < 1
    assert abs(top) < 1
    assert 100 < width < 160  # readable, and leaves room for the numbers


def test_a_task_page_sorts_its_ranked_rows_only(browser: Chrome, sample_site: Path) -> None:
    browser.get((sample_site / "tasks" / "mini.iwslt-t100.html").as_uri())
    script = """
    const table = document.querySelector("section[aria-labelledby=board-1] table.sortable");
    table.querySelectorAll("th button")[0].click();
    table.querySelectorAll("th button")[0].click();
    return [...table.tBodies].map((body) => [...body.rows].map((r) => r.cells[0].innerText));
    """
    ranked, silent = browser.execute_script(script)
    assert ranked[-1].startswith("=1")
    assert set(silent) == {"–"}


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
