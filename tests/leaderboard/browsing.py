"""A headless Chromium for the tests of pages, and what tests do with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def started() -> Iterator[Chrome]:
    """A headless Chromium that records its console; tests are skipped where none starts."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium with chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    failure = pytest.importorskip("selenium.common").WebDriverException
    try:
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except failure as error:
        pytest.skip(f"Chromium does not start on this machine: {(error.msg or '')[:100]}")
    browser.set_script_timeout(120)
    yield browser
    browser.quit()


def resize(browser: Chrome, width: int, scheme: str = "light", height: int = 900) -> None:
    """Emulate a viewport, as windows have a least width, and a color scheme."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def unfold(browser: Chrome) -> None:
    """Open everything that a page has folded."""
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def console(browser: Chrome) -> list[object]:
    """What the browser logged since the last call."""
    entries: list[object] = browser.get_log("browser")
    return entries


def requested(browser: Chrome) -> list[str]:
    """The addresses that pages asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = (each for each in events if each["method"] == "Network.requestWillBeSent")
    return [each["params"]["request"]["url"] for each in sent]


def leaving(urls: list[str], site: Path) -> list[str]:
    """The addresses outside of a site."""
    return [url for url in urls if not url.startswith((site.as_uri(), "data:,"))]


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
