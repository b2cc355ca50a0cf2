"""Published results of real corpora: figures without text, beside suites whose text is shown."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.files import file_digest, read_model, write_model
from benchmark.results.schema import Record
from benchmark.results.store import fresh_score, record_files, record_path, score_path
from benchmark.results.withholding import withhold, withhold_examples
from leaderboard.data.catalog import Catalog, SuiteRow
from leaderboard.data.ranking import boards
from leaderboard.data.rows import load
from leaderboard.render.site import render
from leaderboard.render.slugs import cell_page, task_page
from tests.leaderboard.samples import sample_catalogue, write_sample_results
from tests.leaderboard.test_validity import check


def renamed(task: str) -> str:
    """A task of the sample results as one of the suite `open`."""
    return task.replace("mini/", "open/")


def publish_as_open(results: Path) -> None:
    """Every sample result once more, as one of `open` that was published without text."""
    for path in list(record_files(results)):
        record, score = read_model(path, Record), fresh_score(path)
        names = {"suite": "open", "task": renamed(record.task)}
        bare = withhold(record).model_copy(update=names)
        target = record_path(results, bare)
        write_model(target, bare)
        if score:
            write_model(score_path(target), withhold_examples(score, file_digest(target)))


def both_suites() -> Catalog:
    """The sample catalog with a suite `open` of the same tasks."""
    known = sample_catalogue()
    alike = (replace(task, name=renamed(task.name)) for task in known.tasks)
    suites = (*known.suites, SuiteRow("open", "Real corpora."))
    return replace(known, suites=suites, tasks=(*known.tasks, *alike))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sample results with text, and the same without."""
    folder = tmp_path_factory.mktemp("published")
    write_sample_results(folder)
    publish_as_open(folder)
    return folder


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of both."""
    return render(results, tmp_path_factory.mktemp("site") / "out", both_suites()).parent


def test_real_corpora_come_first_and_the_example_from_where_text_may_be_shown(site: Path) -> None:
    front = (site / "index.html").read_text("utf-8")
    assert front.index(">open</a>") < front.index(">mini</a>")
    assert "Real corpora." in front
    card = front[front.index('<dl class="card">') : front.index("</dl>")]
    assert "mini/" in card
    assert "open/" not in card
    assert "texts of open are not published" in card
    own = (site / "suites" / "mini.html").read_text("utf-8")
    assert "are not published" not in own


def test_no_text_of_a_published_result_is_on_any_page(results: Path, site: Path) -> None:
    scores = [row.score for row in load(results) if row.score]
    texts = {example.truth for score in scores for example in score.examples}
    assert texts
    pages = [*(site / "tasks").glob("open.*"), *site.glob("cells/open.*/*.html")]
    assert len(pages) > 50
    for page in pages:
        shown = page.read_text("utf-8")
        assert not any(text in shown for text in texts), page.name


def test_pages_say_why_and_how_texts_come_back(site: Path) -> None:
    key = ("open/cola-b1", 1, "none", "dager", 0)
    cell = (site / cell_page(key)).read_text("utf-8")
    assert "the texts of real corpora, and what was read of them, are not published" in cell
    command = "leakboard run --suite open --task cola-b1 --attack dager --defense none --seed 0"
    assert f"{command} --results local" in cell
    assert "ROUGE-L" in cell  # the figures of every snapshot stay
    assert "No examples" in (site / task_page("open/cola-b1")).read_text("utf-8")
    with_text = (site / cell_page(("mini/cola-b1", *key[1:]))).read_text("utf-8")
    assert "are not published" not in with_text


def test_results_rank_as_they_did_with_their_text(results: Path) -> None:
    families = {task.name: task.family for task in both_suites().tasks}
    made = boards(load(results), families)

    def ranks(suite: str) -> list[tuple[object, ...]]:
        return [
            (board.task.split("/")[1], board.defense, ranking.metric, entry.row.attack, entry.rank)
            for board in made
            if board.task.startswith(suite)
            for ranking in board.rankings
            for entry in ranking.entries
        ]

    assert ranks("open/") == ranks("mini/")
    assert ranks("open/")


def test_the_pages_are_valid_and_lead_somewhere(site: Path) -> None:
    cell = cell_page(("open/cola-b1", 1, "none", "dager", 0))
    for name in ("index.html", "suites/mini.html", task_page("open/cola-b1"), cell):
        page = site / name
        check(name, page.read_text("utf-8"))
        for link in re.findall(r'href="([^"#]+\.(?:html|csv|svg))', page.read_text("utf-8")):
            assert (page.parent / link).is_file(), (name, link)
