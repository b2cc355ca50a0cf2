"""What a plan would take, told without weights: scaled from records, and said to be so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.files import read_model, write_model
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, get_suite
from benchmark.plugins.selection import choose
from benchmark.results.schema import Record
from benchmark.results.store import record_path
from benchmark.runs import forecast, plan
from benchmark.runs.plan import Selection, plan_pairs
from tests.in_process import leakboard

STORED = Path(__file__).parent.parent / "results" / "stored" / "record-v2.json"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """One record: a second for each sentence of MiniLM, in ten steps."""
    old = read_model(STORED, Record)
    timed = [snapshot.model_copy(update={"seconds": 1.0}) for snapshot in old.snapshots]
    made = {"suite": "open", "task": "open/cola", "attack": "lamp_cos", "attack_variant": ""}
    record = old.model_copy(update={**made, "attack_parameters": {"steps": 10}, "snapshots": timed})
    write_model(record_path(tmp_path, record), record)
    return tmp_path


def predicted(
    task: str, attack: str, catalogs: tuple[Catalog, Catalog], published: Path
) -> forecast.Forecast:
    pairs = plan_pairs(Selection("paper", task, attack), *catalogs)
    return forecast.forecast(get_suite("paper"), pairs, published)


def test_time_grows_with_parameters_sentences_snapshots_and_steps(
    catalogs: tuple[Catalog, Catalog], published: Path
) -> None:
    one = predicted("cola-bert", "lamp_cos", catalogs, published)
    per_step = 1 / 10 / forecast.REFERENCE.parameters
    assert one.hours == pytest.approx(per_step * 2000 * 110 * 100 / forecast.CORES / 3600)
    same = predicted("cola-bert-b4", "lamp_cos", catalogs, published)
    assert same.hours == pytest.approx(one.hours)  # as many sequences
    larger = predicted("cola-bert-large", "lamp_cos", catalogs, published)
    assert larger.hours == pytest.approx(one.hours * 335 / 110)
    assert larger.memory_gb > one.memory_gb
    brief = predicted("cola-bert", "lamp_cos[steps=1000]", catalogs, published)
    assert brief.hours == pytest.approx(one.hours / 2)


def test_what_nobody_has_measured_is_named(
    catalogs: tuple[Catalog, Catalog], published: Path
) -> None:
    found = predicted("cola-bert", "lamp_cos,tag", catalogs, published)
    assert found.unknown == ("tag",)
    assert any("nothing was measured on a GPU" in line for line in forecast.lines(found))


def test_snapshots_are_counted_once_for_all_attacks(
    catalogs: tuple[Catalog, Catalog], published: Path
) -> None:
    one = predicted("cola-bert", "dager_paper", catalogs, published)
    several = predicted("cola-bert", "dager_paper,random,tag", catalogs, published)
    assert one.disk_gb == several.disk_gb == pytest.approx(4 * 110e6 * 100 / 1e9)
    assert any("44 GB in the cache" in line for line in forecast.lines(one))


def test_a_cell_that_never_ran_is_expected_to_take_as_long_as_published_ones(
    catalogs: tuple[Catalog, Catalog], published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PUBLISHED", published)
    known = plan.Known(published, catalogs[0])
    tasks = {name: all_tasks()[f"{name}/cola"] for name in ("mini", "open")}
    (lamp,) = choose(catalogs[0], "attack", "lamp_cos")
    (film,) = choose(catalogs[0], "attack", "film")
    expected = known.seconds(get_suite("open"), tasks["open"], lamp)
    assert expected == pytest.approx(2000 / 10 * tasks["open"].snapshots)
    assert known.seconds(get_suite("open"), tasks["open"], film) == plan.GUESSED_SECONDS
    assert known.seconds(get_suite("mini"), tasks["mini"], lamp) == plan.GUESSED_SECONDS


def test_trainings_are_forecast_without_a_download(tmp_path: Path) -> None:
    done = leakboard(
        *("run", "--suite", "paper", "--dry-run", "--utility", "--results", tmp_path),
        *("--task", "cola-bert"),
    )
    assert done.code == 0, done.err
    assert "to run  paper/cola-bert · utility · none, 3 seeds" in done.out
    assert "download google-bert/bert-base-uncased@locked: 440 MB" in done.out
    assert "hours are not counted" in done.out
    assert "hours of one GPU" not in done.out


def test_the_command_downloads_nothing(tmp_path: Path) -> None:
    done = leakboard(
        *("run", "--suite", "paper", "--dry-run", "--results", tmp_path),
        *("--task", "wikitext*,cola-bert*", "--attack", "dager_paper"),
    )
    assert done.code == 0, done.err
    assert "to run  paper/wikitext-b128 · dager_paper · none" in done.out
    assert "download openai-community/gpt2@locked: 548 MB" in done.out
    assert "GPU memory up to" in done.out
    assert not list(tmp_path.iterdir())


def test_every_model_of_the_paper_suite_has_its_size() -> None:
    suite = get_suite("paper")
    for task in suite.tasks:
        assert task.model in suite.footprints, task.name
    assert {t.name for t in suite.tasks} >= {f"paper/enron-b{n}" for n in (2, 128)}
    short = {task.name.partition("/")[2] for task in suite.tasks}
    assert {line.task for line in (*suite.plan, *suite.utility)} <= short
