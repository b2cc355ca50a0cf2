"""Every page is valid HTML, and a record with script in all its texts harms none of them."""

from __future__ import annotations

from pathlib import Path

import html5lib

from tests.leaderboard.samples import HOSTILE


def check(name: str, text: str) -> None:
    """Parse as a strict validator does; any error is one too many."""
    parser = html5lib.HTMLParser(strict=False)
    parser.parse(text)
    assert [(place, code) for place, code, _ in parser.errors] == [], name


def test_pages_are_valid(sample_site: Path) -> None:
    cells = sorted((sample_site / "cells").rglob("*.html"))[::40]
    others = [p for p in sorted(sample_site.rglob("*.html")) if "cells" not in p.parts]
    for page in (*others, *cells):
        check(page.name, page.read_text("utf-8"))


def test_hostile_words_are_text_on_every_page(hostile_pages: dict[str, str]) -> None:
    pages = {name: text for name, text in hostile_pages.items() if name.endswith(".html")}
    kinds = {name.split("/")[0] for name in pages}
    assert {"index.html", "matrix", "tasks", "submissions", "cells", "timing.html"} <= kinds
    for name, text in pages.items():
        assert HOSTILE not in text, name
        assert text.count("<script") == (not name.startswith("cells/")), name
        check(name, text)
    drawn = [name for name in hostile_pages if name.endswith(".svg")]
    assert drawn
    assert not any("<script" in hostile_pages[name] for name in drawn)
