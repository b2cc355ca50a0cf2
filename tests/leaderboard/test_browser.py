"""What only a browser knows: overflow, console, contrast, and sorting."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
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
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
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
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def resize(browser: Chrome, width: int, scheme: str = "light") -> None:
    """Emulate a viewport, as windows have a least width, and a colour scheme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize("width", [390, 1440])
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
    entries: list[object] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return entries


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


def column(browser: Chrome, index: int) -> list[str]:
    """The sort values of a column of the first table."""
    script = (
        "return [...document.querySelector('table.sortable').tBodies[0].rows]"
        ".map(row => row.cells[arguments[0]].dataset.value)"
    )
    values: list[str] = browser.execute_script(script, index)
    return values


def test_columns_sort(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 1440)
    browser.get((sample_site / "index.html").as_uri())
    buttons = browser.find_elements("css selector", "table.sortable th button")
    buttons[1].click()
    numbers = [float(value) for value in column(browser, 1) if value]
    assert numbers == sorted(numbers, reverse=True)
    assert column(browser, 1)[-1] == ""  # cells without a number stay at the end
    buttons[1].click()
    assert [float(value) for value in column(browser, 1) if value] == sorted(numbers)
    buttons[0].click()
    assert column(browser, 0) == sorted(column(browser, 0))
    header = browser.find_element("css selector", "table.sortable th")
    assert header.get_attribute("aria-sort") == "ascending"
