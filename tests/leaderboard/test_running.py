"""Pages of a run that is not over say so and look for news; the last ones do neither."""

from __future__ import annotations

import re
from pathlib import Path

from leaderboard.render.site import render
from tests.leaderboard.samples import make_record, make_score, sample_catalogue, store

REFRESH = re.compile(r'<meta http-equiv="refresh" content="\d+">')


def pages(site: Path) -> dict[str, str]:
    """The text of every page by its path below the site."""
    return {str(p.relative_to(site)): p.read_text("utf-8") for p in site.rglob("*.html")}


def test_while_a_run_goes_on_every_page_says_so_and_looks_for_news(
    sample_results: Path, sample_site: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    render(sample_results, out, sample_catalogue(), running=(120, 304))
    for text in pages(out).values():
        assert "<b>Running:</b> 120 of 304 cells, refreshed as cells end." in text
        assert len(REFRESH.findall(text)) == 1
        assert "navigate-to" not in text  # the one thing in a content policy that could forbid it
    render(sample_results, out, sample_catalogue())
    assert pages(out) == pages(sample_site)
    assert not any("Running:" in text or REFRESH.search(text) for text in pages(out).values())


def test_the_sandbox_is_named_where_a_reader_looks(tmp_path: Path) -> None:
    results = tmp_path / "results"
    contained, loose = make_record(attack="lamp"), make_record(attack="dager")
    origin = loose.provenance.model_copy(update={"sandbox": "audit-hook"})
    store(results, contained, make_score())
    store(results, loose.model_copy(update={"provenance": origin}), make_score())
    made = pages(render(results, tmp_path / "site", sample_catalogue()).parent)
    assert "sandbox <b>audit-hook</b> (1 result)" in made["index.html"]
    assert "sandbox <b>bubblewrap</b> (1 result)" in made["index.html"]
    rows = re.findall(r'<th scope="row".*?</th>', made["tasks/mini.cola-b1.html"], re.DOTALL)
    marked = [row for row in rows if "audit hook only" in row]
    assert len(marked) == 2  # the row of dager in each of the two rankings
    assert all("dager" in row for row in marked)
