"""What readers do with a page: sort, filter, unfold, ask for help, step, download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pytest

from tests.leaderboard.browser_scripts import SCROLLED
from tests.leaderboard.browsing import press, resize, select, visible

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait


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


def test_task_names_and_heads_stay_in_sight(browser: Chrome, sample_site: Path) -> None:
    resize(browser, 390, height=400)
    browser.get((sample_site / "matrix" / "mini.html").as_uri())
    aside, down, left, width, top = browser.execute_script(SCROLLED)
    assert (aside, down >= 0) == (200, True)
    assert abs(left) < 1
    assert abs(top) < 1
    assert 100 < width < 160  # readable, and leaves room for the numbers
