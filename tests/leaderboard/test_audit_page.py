"""The page of an audit: one file, everything escaped, nothing loaded, readable on a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmark.auditing.report import CAVEAT
from tests.audit_samples import HOSTILE, sample_report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_report().save(tmp_path_factory.mktemp("audit") / "report.html")


def test_everything_is_escaped_and_nothing_is_loaded(page: Path) -> None:
    text = page.read_text()
    assert "<script" not in text
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(src|href)=[\"'](?!#|data:,)", text)
    assert "url(" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "script-src" not in policy[1]
    assert not re.search(r"\sstyle=", text)


def test_the_verdict_comes_first_and_the_caveat_behind_it(page: Path) -> None:
    text = page.read_text()
    places = [text.index(words) for words in ("<h1>2 of 2 sentences", CAVEAT[:40], "<h2>Sentences")]
    assert places == sorted(places)
    for heading in ("Entities and digits", "Batch size", "Defenses", "Attacks", "Not tried"):
        assert f"<h2>{heading}</h2>" in text
