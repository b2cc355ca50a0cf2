"""What a task says that its model has seen is what the model was trained on, text by text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmark.plugins.registry import all_tasks
from benchmark.suites import SEEN, Seen, Task
from tasks.corpora import builtin
from tasks.models import catalog
from tasks.models.pretraining import text
from tasks.models.pretraining.reading import READINGS, lineage, training_text
from tasks.models.pretraining.text import RealText
from tasks.models.train import RECIPES

MINI = sorted((t for t in all_tasks().values() if t.name.startswith("mini/")), key=lambda t: t.name)
MEMORIZED = "gpt2-memorized"


class NoRealText(RealText):
    """Leaves the real text out: `test_splits.py` compares that with all private rows."""

    def sentences(self, name: str) -> list[str]:
        assert name in ("wikitext", "reviews")
        return []


@cache
def read_by(model: str) -> frozenset[str]:
    """Every builtin text that a model and those that it continues were trained on."""
    nothing = NoRealText(Path())
    return frozenset(t for name in lineage(model) for t in training_text(name, nothing))


def read_before(task: Task) -> frozenset[str]:
    """Every builtin text that the task's model and prior were trained on."""
    names = [n.removeprefix("builtin:") for n in (task.model, task.prior or "self") if n != "self"]
    return frozenset().union(*map(read_by, names))


def expected(task: Task) -> Seen:
    """What the texts themselves say."""
    name, read = task.corpus.removeprefix("builtin:"), read_before(task)
    private = {row.text for row in builtin.load(name, "private")}
    if private <= read:
        return "private"
    assert not private & read, f"{task.name}: some private rows were read, and not all"
    return "domain" if {row.text for row in builtin.load(name, "public")} & read else "nothing"


def test_every_task_of_the_mini_suite_tells_the_truth() -> None:
    said = {task.name: task.seen for task in MINI}
    assert said == {task.name: expected(task) for task in MINI}
    assert set(said.values()) == {"nothing", "domain", "private"}
    assert set(SEEN) == {*said.values(), "unknown"}


def test_the_sentences_were_learned_only_where_the_name_says_so() -> None:
    private = {task.name for task in MINI if task.seen == "private"}
    assert private == {task.name for task in MINI if "-memorized" in task.name}
    assert {f"mini/{corpus}-memorized" for corpus in ("wikitext", "enron")} <= private


def test_of_published_weights_nothing_is_claimed() -> None:
    """But where a task attacks the very rows that its model is tuned on, as others' BERTs were."""
    foreign = [t for t in all_tasks().values() if not t.model.startswith("builtin:")]
    assert {task.seen for task in foreign} == {"unknown", "private"}
    claimed = {task.name for task in foreign if task.seen == "private"}
    assert all(name.startswith("paper/") and "-bert-finetuned" in name for name in claimed)


def test_every_model_declares_what_it_reads() -> None:
    assert set(READINGS) == set(RECIPES)
    for name, reading in READINGS.items():
        assert catalog.model_info(name).training_text == reading.words
        assert reading.after is None or reading.after in READINGS


@pytest.mark.parametrize("name", sorted(READINGS))
def test_one_model_alone_reads_private_rows(name: str) -> None:
    private = {row.text for corpus in builtin.NAMES for row in builtin.load(corpus, "private")}
    tested = {row.text for corpus in builtin.NAMES for row in builtin.load(corpus, "test")}
    assert bool(read_by(name) & private) == (name == MEMORIZED)
    assert not read_by(name) & tested


def test_private_rows_are_refused_everywhere_else() -> None:
    with pytest.raises(ValueError, match="private rows"):
        text.rows(("wikitext",), "private")


def test_the_memorized_sentences_are_known_far_better_than_others_of_their_kind() -> None:
    scores = {corpus: trained for corpus, _, trained, _ in catalog.model_info(MEMORIZED).scores}
    before = {c: trained for c, _, trained, _ in catalog.model_info("gpt2-finetuned").scores}
    for corpus in ("wikitext", "enron"):
        assert scores[f"{corpus}, private rows"] < 0.25 * before[corpus]
