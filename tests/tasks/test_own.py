"""A user's own model and text: what is read of them, and each mistake in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark.auditing.workspace import workspace
from benchmark.errors import UserError
from benchmark.plugins.registry import AuditQuestion, own_suite
from benchmark.spec import Knowledge
from benchmark.suites import Suite
from tasks.own.model import find_model, stage_model
from tasks.own.texts import read_texts
from tests.tiny_models import LABELS, SOURCES, TEXTS, make_folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = make_folder(tmp_path_factory.mktemp("models") / kind, kind)
        return made[kind]

    return folder


def write(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def labeled(path: Path) -> Path:
    return write(path, *({"text": t, "label": y} for t, y in zip(TEXTS, LABELS, strict=True)))


def suite(source: Path, text: Path, objective: str, **changes: Any) -> Suite:
    question: Any = {
        "model": "mine", "source": source, "text": text, "objective": objective, "batch_size": 1,
        "local_steps": 1, "learning_rate": 0.01, "sentences": 10, "attacks": None,
        "defenses": None, "utility": False, "other_sizes": True, "unknown_text": False,
    } | changes  # fmt: skip
    asked: AuditQuestion = question
    with workspace() as folder:
        return own_suite(folder / "model", **asked)


# ------------------------------------------------------------------------------------------ texts


def test_plain_lines_and_json_lines(tmp_path: Path) -> None:
    plain = read_texts(write(tmp_path / "a", "one", "", "  two "), "causal-lm")
    assert [(text.line, text.text) for text in plain] == [(1, "one"), (3, "two")]
    pairs = read_texts(write(tmp_path / "b", {"source": "eins", "target": "one"}), "translation")
    assert (pairs[0].source, pairs[0].text) == ("eins", "one")
    classes = read_texts(write(tmp_path / "c", {"text": "one", "label": "good"}), "classification")
    assert classes[0].label == "good"


@pytest.mark.parametrize(
    ("lines", "objective", "sentence"),
    [
        (("", "  "), "causal-lm", "holds no text"),
        (({"text": "a", "label": 0}, {"text": "b"}), "classification", "Line 2 .* has no label"),
        (({"text": "a", "label": 0}, {"text": "b", "label": "x"}), "classification", "not both"),
        (("a", "b"), "classification", "has no labels"),
        (({"text": "a"},), "translation", "Line 1 .* no source sentence"),
        (({"text": "a"}, "b"), "causal-lm", "Line 2 .* not JSON"),
        (({"text": 3},), "causal-lm", 'has no "text"'),
        (({"text": "a", "label": True},), "causal-lm", "neither a whole number nor a word"),
        (('{"text": "\\ud800"}',), "causal-lm", "not UTF-8"),
    ],
)
def test_a_text_that_will_not_do(
    tmp_path: Path, lines: tuple[object, ...], objective: Any, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        read_texts(write(tmp_path / "texts", *lines), objective)


def test_a_text_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no text file"):
        read_texts(tmp_path / "none", "causal-lm")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8"):
        read_texts(tmp_path / "latin", "causal-lm")


# ------------------------------------------------------------------------------------------ model


def test_only_the_files_of_a_model_are_staged(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in folders("gpt2").iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    for name in ("train.jsonl", "optimizer.pt", "vocab.pkl", "notes.txt"):
        (source / name).write_text("secret")
    staged = stage_model(source, tmp_path / "staged")
    names = {path.name for path in staged.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"train.jsonl", "optimizer.pt", "vocab.pkl", "notes.txt"}


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "it has no config.json"),
        ({"config.json": "{}"}, "holds no .safetensors weights; save"),
        ({"config.json": "{}", "pytorch_model.bin": ""}, "pytorch_model.bin, a pickle"),
    ],
)
def test_a_folder_without_a_model(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=sentence):
        find_model(str(tmp_path))


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(UserError, match="There is no model folder nowhere"):
        find_model("nowhere")
    with pytest.raises(UserError, match="does not pin a revision"):
        find_model("hub:someone/something")


# ------------------------------------------------------------------------------------------ suite


def test_a_classifier_and_its_text_become_tasks(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    found = suite(folders("roberta"), labeled(tmp_path / "texts"), "classification", batch_size=2)
    first = found.tasks[0]
    assert found.summary == "roberta"
    assert [(t.name, t.batch_size, t.snapshots) for t in found.tasks] == [
        ("audit/b2", 2, 4), ("audit/b1", 1, 8), ("audit/b4", 4, 2), ("audit/b8", 8, 1),
    ]  # fmt: skip
    assert (first.labels, first.head, first.tied, first.max_tokens) == (2, "trained", False, 16)
    assert {Knowledge.LABELS, Knowledge.LENGTHS} <= first.grants
    assert found.plan[0].attack == "dager"
    assert {line.defense for line in found.plan} == {
        "none", "gaussian_noise", "dpsgd[epsilon=8.0]", "prune", "freeze_embeddings",
    }  # fmt: skip
    assert not found.utility


def test_a_body_gets_a_fresh_head(folders: Callable[[str], Path], tmp_path: Path) -> None:
    from transformers import BertModel

    from tests.tiny_models import make_tokenizer

    body = BertModel.from_pretrained(str(folders("bert")))
    body.save_pretrained(str(tmp_path / "body"))
    make_tokenizer("classification").save_pretrained(str(tmp_path / "body"))
    text = write(tmp_path / "t", *({"text": t, "label": y} for t, y in zip(TEXTS, "abcabcab",
                                                                         strict=True)))  # fmt: skip
    task = suite(tmp_path / "body", text, "classification").tasks[0]
    assert (task.head, task.labels) == ("fresh", 3)


def test_a_text_that_nobody_knows_grants_nothing_of_itself(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    text = labeled(tmp_path / "t")
    task = suite(folders("bert"), text, "classification", unknown_text=True).tasks[0]
    assert not {Knowledge.LABELS, Knowledge.LENGTHS} & task.grants


@pytest.mark.parametrize(
    ("kind", "objective", "changes", "sentence"),
    [
        ("gpt2", "causal-lm", {"batch_size": 9}, "has 8 texts, fewer than a batch of 9"),
        ("gpt2", "causal-lm", {"batch_size": 3, "local_steps": 2}, "equal steps"),
        ("gpt2", "causal-lm", {"utility": True}, "too few to train and test"),
        ("t5", "causal-lm", {}, "type t5 cannot be trained for causal-lm; use --objective classif"),
        ("bert", "translation", {}, "type bert cannot be trained for translation"),
    ],
)
def test_what_does_not_go_together(
    folders: Callable[[str], Path],
    tmp_path: Path,
    kind: str,
    objective: str,
    changes: dict[str, Any],
    sentence: str,
) -> None:
    rows = zip(TEXTS, SOURCES, LABELS, strict=True)
    text = write(tmp_path / "t", *({"text": t, "source": s, "label": y} for t, s, y in rows))
    with pytest.raises(UserError, match=sentence):
        suite(folders(kind), text, objective, **changes)


def test_a_line_that_the_model_cannot_read(folders: Callable[[str], Path], tmp_path: Path) -> None:
    text = write(tmp_path / "t", "Alice owes Bob", "Alice " * 60)
    with pytest.raises(UserError, match=r"Line 2 .* has 62 tokens, more than the 48"):
        suite(folders("gpt2"), text, "causal-lm")


def test_a_label_that_the_model_does_not_know(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    text = write(tmp_path / "t", {"text": "Alice", "label": 0}, {"text": "Bob", "label": 7})
    with pytest.raises(UserError, match=r"Line 2 .* has the label 7, which is none of the 2"):
        suite(folders("bert"), text, "classification")


def test_an_architecture_that_transformers_does_not_know(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    source = tmp_path / "odd"
    source.mkdir()
    for path in folders("gpt2").iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    (source / "config.json").write_text('{"model_type": "abacus", "auto_map": {}}')
    with pytest.raises(UserError, match="type abacus, which transformers does not know"):
        suite(source, write(tmp_path / "t", "Alice"), "causal-lm")


def test_weights_that_do_not_fill_the_model(folders: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not fill a model for causal-lm"):
        suite(folders("bert"), write(tmp_path / "t", "Alice"), "causal-lm")
