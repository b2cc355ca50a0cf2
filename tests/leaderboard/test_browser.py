"""What only a browser knows: overflow, console, contrast, and sorting."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leaderboard.render.site import render
from tests.audit_samples import sample_report
from tests.leaderboard.samples import sample_catalogue

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
WebDriverException = pytest.importorskip("selenium.common").WebDriverException
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium with chromedriver")

PAGES = (
    "index.html",
    "metrics.html",
    "tasks/mini.cola-b4.html",
    "tasks/mini.enron-b8.html",
    "submissions/attack-lamp.html",
    "submissions/defense-none.html",
)

CONTRASTS = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) =>
  0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const backdrop = (node) => {
  for (; node; node = node.parentElement) {
    const color = parse(getComputedStyle(node).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || node.matches("script, svg *")) continue;
  const [a, b] = [parse(getComputedStyle(node).color), backdrop(node)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(node.outerHTML.slice(0, 80) + " " + ratio.toFixed(2));
}
return poor;
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """A headless chromium that records its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
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
    for page in PAGES[:4]:
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


def test_the_console_is_silent(browser: Chrome, sample_site: Path) -> None:
    console(browser)
    for page in PAGES:
        browser.get((sample_site / page).as_uri())
    assert console(browser) == []


def test_the_style_is_applied(browser: Chrome, sample_site: Path) -> None:
    """A wrong hash in the policy would leave a bare page without any error elsewhere."""
    browser.get((sample_site / "index.html").as_uri())
    width = "return getComputedStyle(document.querySelector('.matrix td')).textAlign"
    assert browser.execute_script(width) == "center"


def families(browser: Chrome, index: int) -> dict[str, list[str]]:
    """The sort values of a column of the first matrix, by the heading that they stand under."""
    script = """
    const bodies = [...document.querySelectorAll(".matrix")[0].tBodies].slice(1);
    return bodies.map((body) => [...body.rows].map(
      (row, place) => place ? row.cells[arguments[0]].dataset.value : row.cells[0].textContent));
    """
    bodies: list[list[str]] = browser.execute_script(script, index)
    return {head: values for head, *values in bodies}


def test_tasks_sort_within_their_family(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 1440)
    browser.get((sample_site / "index.html").as_uri())
    before = families(browser, 0)
    assert [head.split(" ")[0] for head in before] == ["Language", "Classification"]
    buttons = browser.find_elements("css selector", ".matrix th button")
    for descending in (True, False):
        buttons[1].click()
        for values in families(browser, 1).values():
            numbers = [float(value) for value in values if value]
            assert numbers == sorted(numbers, reverse=descending)
            assert values[: len(numbers)] == [value for value in values if value]
    assert families(browser, 0) != before
    buttons[0].click()
    assert families(browser, 0) == before  # the first column brings the natural order back
    header = browser.find_element("css selector", ".matrix th")
    assert header.get_attribute("aria-sort") == "ascending"


SCROLLED = """
const box = document.querySelector(".board");
box.scrollIntoView({behavior: "instant"});
box.scrollTo(200, 150);
const name = box.querySelector("tbody:last-of-type tr:last-child th").getBoundingClientRect();
const head = box.querySelector("thead th").getBoundingClientRect();
const frame = box.getBoundingClientRect();
return [box.scrollLeft, box.scrollTop, name.left - frame.left, name.width, head.top - frame.top];
"""


def test_task_names_and_heads_stay_in_sight(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 390, height=400)
    browser.get((sample_site / "index.html").as_uri())
    aside, down, left, width, top = browser.execute_script(SCROLLED)
    assert (aside, down) == (200, 150)
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
