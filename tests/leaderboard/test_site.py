"""The pages: complete, escaped, self-contained and the same on every render."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markupsafe import escape

from benchmark.metrics.table import METRICS
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import Broken
from benchmark.results.schema import Example, Status
from benchmark.spec import Parameter
from benchmark.suites import Suite, Task
from leaderboard.data.catalog import Catalog, SubmissionRow, TaskRow
from leaderboard.data.ranking import RULE
from leaderboard.data.rows import Row
from leaderboard.render.site import render, render_all
from leaderboard.render.slugs import cell_page
from tests.leaderboard.samples import (
    HOSTILE,
    TASKS,
    make_record,
    make_score,
    make_snapshots,
    sample_catalogue,
    store,
)


class Tags(HTMLParser):
    """Collects the start tags of a page with their attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        self.found.append((tag, dict(attrs)))


def pages(site: Path) -> list[Path]:
    """All pages of a site."""
    return sorted(site.rglob("*.html"))


def contents(site: Path) -> dict[str, bytes]:
    """All files of a site by relative path."""
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def draw(tmp_path: Path, catalog: Catalog | None = None) -> Path:
    """A site from the results in `tmp_path / "results"`: its root folder."""
    out = tmp_path / "site"
    return render(tmp_path / "results", out, catalog or Catalog()).parent


def test_every_task_and_submission_has_a_page(sample_site: Path) -> None:
    catalog = sample_catalogue()
    tasks = list((sample_site / "tasks").iterdir())
    submissions = list((sample_site / "submissions").iterdir())
    assert len(tasks) == len(catalog.tasks)
    assert len(submissions) == len(catalog.submissions) + 1  # the attack that only records name
    assert (sample_site / "index.html").is_file()


def test_the_metrics_page_has_the_whole_table(sample_site: Path) -> None:
    text = (sample_site / "metrics.html").read_text("utf-8")
    assert all(f'id="{name}"' in text for name in METRICS)


def test_links_lead_to_pages_of_the_site(sample_site: Path) -> None:
    for page in pages(sample_site):
        if "cells" in page.parts and not page.name.startswith("mini-cola-b1-v1-none"):
            continue  # all cells come from one template
        for _, attributes in Tags(page).found:
            link = attributes.get("href")
            if link and link != "data:,":
                assert (page.parent / unquote(link.split("#")[0] or page.name)).is_file(), link


def test_nothing_is_loaded_from_elsewhere(sample_site: Path) -> None:
    remote = re.compile(r"(?:(?:src|href|action|poster)\s*=|url\(|@import)\s*[\"']?\s*(?:\w+:)?//")
    for page in pages(sample_site):
        assert not remote.search(page.read_text("utf-8")), page
        tags = Tags(page).found
        assert (("script", {}) in tags) == ("cells" not in page.parts)
        assert not [tag for tag, attributes in tags if tag in {"img", "iframe", "object"}]
        assert not [attributes for _, attributes in tags if "src" in attributes]


def test_only_the_own_script_may_run(sample_site: Path) -> None:
    for page in pages(sample_site):
        tags = Tags(page).found
        policy = next(a["content"] for t, a in tags if t == "meta" and "http-equiv" in a)
        assert policy is not None
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert [tag for tag, _ in tags].count("script") == ("cells" not in page.parts)
        assert not [name for _, a in tags for name in a if name.startswith("on") or name == "style"]


def test_tables_are_labelled(sample_site: Path) -> None:
    for page in pages(sample_site):
        tags = Tags(page).found
        names = [tag for tag, _ in tags]
        assert names.count("caption") == names.count("table")
        assert all("scope" in attributes for tag, attributes in tags if tag == "th")


def test_untrusted_words_are_text(tmp_path: Path) -> None:
    snapshots = make_snapshots(failed=1, reason=HOSTILE)
    example = Example(index=0, truth=f"{HOSTILE} secret", recovered=f"{HOSTILE} {HOSTILE}")
    record = make_record(
        f"mini/{HOSTILE}",
        HOSTILE,
        HOSTILE,
        attack_parameters={HOSTILE: HOSTILE},
        snapshots=snapshots,
        told=[HOSTILE],
    )
    store(
        tmp_path / "results", record, make_score({"rougeL": [0.5] * 8, HOSTILE: [1.0]}, [example])
    )
    catalog = Catalog(
        tasks=(TaskRow(f"mini/{HOSTILE}", HOSTILE, HOSTILE, grants=(HOSTILE,), papers=(HOSTILE,)),),
        submissions=(
            SubmissionRow(
                "attack", HOSTILE, HOSTILE, HOSTILE, needs=(HOSTILE,), told={HOSTILE: (HOSTILE,)}
            ),
        ),
    )
    site = draw(tmp_path, catalog)
    for page in pages(site):
        text = page.read_text("utf-8")
        assert HOSTILE not in text
        assert text.count("<script") == ("cells" not in page.parts)
    assert "&lt;script&gt;alert" in (site / "index.html").read_text("utf-8")


def test_texts_of_a_megabyte_make_no_large_page(tmp_path: Path) -> None:
    """Reasons, notes and recovered text of a foreign record, which `run` itself would have cut."""
    long = "word " * 200_000
    cut = {"note": "n" * 10_000, "texts": [long, "x" * 1_000_000]}
    snapshots = [s.model_copy(update=cut) for s in make_snapshots(failed=2, reason="r" * 1_000)]
    record = make_record(snapshots=snapshots, reason="r" * 1_000)
    foreign = record.model_copy(update={"reason": long})
    example = Example(index=0, truth=long, recovered=long)
    store(tmp_path / "results", foreign, make_score({"rougeL": [0.5] * 8}, [example]))
    site = draw(tmp_path, sample_catalogue())
    assert max(page.stat().st_size for page in pages(site)) < 500_000
    (cell,) = (site / "cells").rglob("*.html")
    assert "… (8,000 characters more)" in cell.read_text("utf-8")


def test_a_second_render_is_identical(
    sample_results: Path, sample_site: Path, tmp_path: Path
) -> None:
    again = render(sample_results, tmp_path / "again", sample_catalogue()).parent
    assert contents(again) == contents(sample_site)
    render(sample_results, tmp_path / "again", sample_catalogue())
    assert contents(again) == contents(sample_site)
    assert [entry.name for entry in tmp_path.iterdir()] == ["again"]


def test_what_the_time_limit_has_cut_is_marked(tmp_path: Path) -> None:
    """In the matrix, on the task's page and on the attack's; nothing else bears the mark."""
    task, mark = next(iter(TASKS)), "cut by the time limit"
    store(tmp_path / "results", make_record(task, "prior_only"), make_score())
    assert not any(mark in page.read_text("utf-8") for page in pages(draw(tmp_path)))
    cut = make_record(task, "dager", snapshots=make_snapshots(cut=3))
    store(tmp_path / "results", cut, make_score())
    site = draw(tmp_path)
    marked = {page.name for page in pages(site) if f"3 of 8 {mark}" in page.read_text("utf-8")}
    cell = Path(cell_page(Row(cut).key)).name
    names = {"mini.html", "attack-dager.html", "defense-none.html", cell}
    assert marked == names | {task.replace("/", ".") + ".html"}
    assert '<small class="cut">3 cut' in (site / "matrix" / "mini.html").read_text("utf-8")


def test_cells_without_a_number_keep_their_reason(sample_site: Path) -> None:
    index = (sample_site / "matrix" / "mini.html").read_text("utf-8")
    assert "more than 300 s for one snapshot" in index
    assert "2 of 16 failed" in index
    task = (sample_site / "tasks" / "mini.iwslt-t100.html").read_text("utf-8")
    assert "more than 4096 MB" in task
    assert "out-of-memory" in task
    attack = (sample_site / "submissions" / "attack-film.html").read_text("utf-8")
    assert "2 × error: diverged" in attack
    assert "word-embedding is not shared" in attack


def test_the_matrix_has_a_line_for_each_task(sample_site: Path) -> None:
    text = (sample_site / "matrix" / "mini.html").read_text("utf-8")
    blocks = [part.split("</table>")[0] for part in text.split('<table class="matrix')[1:]]
    names = [
        re.findall(r'<th scope="row" class="first" data-value="\d+"[^>]*><a [^>]*>([^<]+)<', block)
        for block in blocks[:2]
    ]
    assert names == [["enron-b8", "wikitext-b1"], ["cola-b1", "cola-b4", "sst2-b2"]]
    assert re.findall(r'<span class="setting">(seed \d)</span>', blocks[1]) == ["seed 0"]
    heads = [re.search(r'<th scope="col" class="first">([^<]+)<', block) for block in blocks[:2]]
    assert [head and head[1] for head in heads] == ["Language modeling", "Classification"]
    assert 'title="Recover the sentences of one batch' in blocks[0]


def test_leaders_and_floors_are_marked_and_explained(sample_site: Path) -> None:
    index = (sample_site / "matrix" / "mini.html").read_text("utf-8")
    cells = re.findall(r'<td class="h\d+ best" [^>]*><a [^>]*title="([^"]+)"', index)
    assert cells
    assert all(
        re.search(r"interval .* over 16 snapshots.*, rank (=1 \(shared\)|1)$", c) for c in cells
    )
    assert "leads its line" in index
    heads = re.findall(r">(prior_<wbr>only|random)</a>\s*<span class=\"tag\"", index)
    assert set(heads) == {"prior_<wbr>only", "random"}
    assert "guesses without reading the gradient" in index


def test_what_an_attack_was_told_stands_beside_its_name(tmp_path: Path) -> None:
    """As its records say on boards, as it declares on its page; old records say nothing of it."""
    told: dict[str, list[str] | None] = {
        "knows": ["labels", "type-count"],
        "blind": [],
        "old": None,
    }
    for name, facts in told.items():
        store(tmp_path / "results", make_record(attack=name, told=facts), make_score())
    declared = {"knows": ("labels",), "knows_more": ("labels", "lengths")}
    row = SubmissionRow(
        "attack", "knows", "Knows.", variants=(("knows_more", {"more": True}),), told=declared
    )
    site = draw(tmp_path, Catalog(submissions=(row,)))
    for page in ("matrix/mini.html", "tasks/mini.cola-b1.html"):
        text = (site / page).read_text("utf-8")
        knows, blind = (
            text.count(f">told: {x}</small>") for x in ("labels, type count", "nothing")
        )
        assert knows == blind > 0
        assert text.count(">told: ") == knows + blind
    page = (site / "submissions" / "attack-knows.html").read_text("utf-8")
    assert "<dt>is told, where granted</dt><dd>the labels</dd>" in page
    assert "told: the labels, the sentence lengths" in page


def test_a_matrix_of_floors_comes_last(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record(attack="random"), make_score())
    token_sets = make_record(attack="bag_of_words", snapshots=make_snapshots(token_sets=True))
    store(tmp_path / "results", token_sets, make_score({"type_f1": [0.9] * 8}))
    guess = SubmissionRow("attack", "random", "Guesses.", baseline=True)
    index = (draw(tmp_path, Catalog(submissions=(guess,))) / "matrix" / "mini.html").read_text(
        "utf-8"
    )
    types, sentences = index.index("Token types recovered"), index.index("Sentences recovered")
    assert types < sentences < index.index("Only baselines have numbers here so far")


def test_defenses_are_compared_where_there_are_several(sample_site: Path, tmp_path: Path) -> None:
    assert "strongest attack still recovers" in (sample_site / "matrix" / "mini.html").read_text(
        "utf-8"
    )
    store(tmp_path / "results", make_record(), make_score())
    assert "strongest attack still" not in (draw(tmp_path) / "matrix" / "mini.html").read_text(
        "utf-8"
    )


def test_the_rules_stand_on_the_pages(sample_site: Path) -> None:
    """Ranks beside their tables, the panel beside the defenses, intervals where metrics are."""
    index = (sample_site / "index.html").read_text("utf-8")
    task = (sample_site / "tasks" / "mini.cola-b1.html").read_text("utf-8")
    metrics = (sample_site / "metrics.html").read_text("utf-8")
    rule = str(escape(RULE))
    assert rule in index
    assert rule in metrics
    assert task.count(rule) >= 2
    assert "classification: prior_only, bag_of_words, lamp, dager" in index
    assert "has to face: prior_only, bag_of_words, lamp, dager" in task
    assert "Clopper and Pearson" in metrics
    assert not any("bootstrap" in page.read_text("utf-8") for page in pages(sample_site))


def test_an_incomplete_panel_is_listed_and_does_not_lead(sample_site: Path) -> None:
    """`dager` ran out of time on this task, so no defense on it is ranked."""
    index = (sample_site / "matrix" / "mini.html").read_text("utf-8")
    page = (sample_site / "tasks" / "mini.enron-b8.html").read_text("utf-8")
    assert "panel incomplete, dager timeout (more than 300 s for one snap" in page
    assert "panel incomplete, dager timeout" in index
    assert "at least </span>≥" in index
    whole = (sample_site / "tasks" / "mini.cola-b1.html").read_text("utf-8")
    assert "4 of 4 tried" in whole
    assert "bag_of_words does not apply: the gradient of word-embedding is not shared" in whole
    assert "panel incomplete" not in whole


def test_baselines_stand_beside_all_metrics(tmp_path: Path) -> None:
    for attack, recall in (("film", 0.91), ("public_sentences", 0.44)):
        score = make_score({"rougeL": [recall / 2] * 8, "sentence_recall": [recall] * 8})
        record = make_record(attack=attack, baseline=attack == "public_sentences")
        store(tmp_path / "results", record, score)
    site = draw(tmp_path)
    task = (site / "tasks" / "mini.cola-b1.html").read_text("utf-8")
    first = task.split("best baseline</th>")[1].split("</tr>")[0]
    assert re.findall(r"baseline on the same snapshots: (\w+)\">([0-9.]+)<", first) == [
        ("public_sentences", "0.220"),
        ("public_sentences", "0.440"),
    ]
    attack = (site / "submissions" / "attack-film.html").read_text("utf-8")
    assert 'same snapshots: public_sentences">0.220<' in attack


def test_the_published_scale_is_on_no_page_of_results(tmp_path: Path) -> None:
    score = make_score({"rougeL": [0.5] * 8, "rouge1_with_specials": [0.777] * 8})
    store(tmp_path / "results", make_record(), score)
    for page in {*pages(site := draw(tmp_path))} - {site / "papers.html"}:
        assert "0.777" not in page.read_text("utf-8")


def test_broken_plugins_are_listed(sample_site: Path) -> None:
    assert "submissions/attacks/broken.py" in (sample_site / "index.html").read_text("utf-8")


def test_unscored_results_are_listed(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record())
    site = draw(tmp_path)
    assert "not scored yet" in (site / "matrix" / "mini.html").read_text("utf-8")
    assert "not scored yet" in (site / "tasks" / "mini.cola-b1.html").read_text("utf-8")


def test_records_may_name_what_the_catalogue_lacks(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record("old/gone", "lost", "forgotten"), make_score())
    site = draw(tmp_path)
    for page in ("tasks/old.gone", "submissions/attack-lost", "submissions/defense-forgotten"):
        assert "not in the catalog" in (site / f"{page}.html").read_text("utf-8")


def test_a_superseded_version_is_marked_and_left_out_of_the_overview(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record(attack="elder", version=1), make_score())
    catalog = Catalog(tasks=(TaskRow("mini/cola-b1", "classification", "", version=2),))
    site = draw(tmp_path, catalog)
    assert "superseded" in (site / "tasks" / "mini.cola-b1.html").read_text("utf-8")
    assert 'class="matrix' not in (site / "matrix" / "mini.html").read_text("utf-8")


def test_no_results_make_a_site_too(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    site = draw(tmp_path, sample_catalogue())
    assert "no results yet" in (site / "index.html").read_text("utf-8")
    assert len(list((site / "tasks").iterdir())) == len(TASKS) + 1


def test_a_corrupt_record_costs_no_other_its_place(tmp_path: Path) -> None:
    store(tmp_path / "results", make_record(), make_score())
    before = contents(draw(tmp_path))
    (tmp_path / "results" / "bad.s0.json").write_text("{")
    assert contents(draw(tmp_path)) == before


def test_statuses_of_a_site_without_numbers(tmp_path: Path) -> None:
    record = make_record(status=Status.INVALID, reason="ids outside the vocabulary")
    store(tmp_path / "results", record, make_score({"rougeL": [0.0]}))
    index = (draw(tmp_path) / "matrix" / "mini.html").read_text("utf-8")
    assert "ids outside the vocabulary" in index
    assert ">invalid<" in index


def test_the_registry_fills_the_catalogue(tmp_path: Path) -> None:
    task = Task("mini/x", "classification", "x", "builtin:x", "builtin:y", "classification")
    parameter = Parameter(3, "how often")
    entry = Entry(
        kind="attack",
        name="guess",
        reference="guess.py",
        digest="00ff",
        summary="Guesses.",
        paper="",
        allow_tf32=False,
        parameters={"tries": parameter},
        observes=["output"],
    )
    store(tmp_path / "results", make_record("mini/x", "guess"), make_score())
    index = render_all(
        tmp_path / "results",
        tmp_path / "site",
        suites=[Suite("mini", "Small.", (task,)), Suite("again", "Twice.", (task,))],
        entries=[entry],
        broken=[Broken("attack", "bad.py", "SyntaxError")],
    )
    assert "bad.py" in index.read_text("utf-8")
    assert "builtin:y" in (index.parent / "tasks" / "mini.x.html").read_text("utf-8")
    page = (index.parent / "submissions" / "attack-guess.html").read_text("utf-8")
    assert all(word in page for word in ("tries", "how often", "output", "00ff"))
