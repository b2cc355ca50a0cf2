"""Models that are trained here: by a recipe, on public rows alone, once, and checked afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark.errors import UserError
from tasks import corpora
from tasks.models import train_open
from tasks.models.digests import model_digest
from tasks.models.finetuning import recipes, store
from tasks.models.finetuning.recipes import TrainingRecipe
from tasks.models.loading import open_model
from tasks.models.resolve import locate
from tests.tiny_models import TEXTS, make_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small corpora, and recipes on them that start from tiny models."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    rows = [f"{text[:-1]} {number} ." for number in range(6) for text in TEXTS]
    cola = [{"sentence": text, "label": len(text) % 2} for text in rows]
    pairs = [{"translation": {"en": text, "de": text.lower()}} for text in rows]
    for name, records in (("cola", cola), ("iwslt2017_de-en", pairs)):
        for part in ("train", "validation", "test"):
            mine = records if part == "train" else [_held_out(record) for record in records[:8]]
            lines = "".join(json.dumps(record) + "\n" for record in mine)
            (data / f"{name}.{part}.jsonl").write_text(lines)
    base = make_folder(tmp_path / "bert", "bert")
    monkeypatch.setenv("LEAKBOARD_DATA", str(data))
    monkeypatch.setenv("LEAKBOARD_CACHE", str(cache))
    tiny = {
        "bert-cola": TrainingRecipe(
            f"dir:{base}", "classification", "data:cola", 3, 1e-3, 4, 1, labels=2, max_tokens=32
        ),
        "decoder": TrainingRecipe(
            *(f"dir:{base}", "causal-lm", "data:cola", 3, 1e-3, 4, 1),
            max_tokens=32,
            width=64,
            layers=1,
        ),
        "marian": TrainingRecipe(
            "", "translation", "data:iwslt", 2, 1e-3, 4, 1, vocabulary=300, width=64, layers=1
        ),
    }
    monkeypatch.setattr(store, "RECIPES", tiny)
    monkeypatch.setattr(train_open, "RECIPES", tiny)
    return cache


def _held_out(record: Any) -> Any:
    return json.loads(json.dumps(record).replace("crowns", "kroner").replace(" .", " again ."))


def test_all_are_made_by_one_command_and_then_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_open.main([]) == 0
    said = capsys.readouterr().out
    for name, objective in (
        ("bert-cola", "classification"),
        ("decoder", "causal-lm"),
        ("marian", "translation"),
    ):
        found = locate(f"trained:{name}")
        assert found.is_relative_to(folder)
        open_model(found, objective, "float32", "cpu")
        assert f"SHA-256 {model_digest(found)}" in said
        assert json.loads((found / "metrics.json").read_text())["test"]["after"]
    before = model_digest(locate("trained:bert-cola"))
    assert train_open.main(["--only", "bert-cola"]) == 0
    assert model_digest(locate("trained:bert-cola")) == before


def test_the_same_recipe_gives_the_same_bits(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train_open.main(["--only", "bert-cola"]) == 0
    first = model_digest(locate("trained:bert-cola"))
    torch.manual_seed(99)
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path / "other"))
    assert train_open.main(["--only", "bert-cola"]) == 0
    assert model_digest(locate("trained:bert-cola")) == first


def test_only_public_rows_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, str]] = []
    load = corpora.load

    def noting(reference: str, split: corpora.Split) -> tuple[corpora.Row, ...]:
        read.append((reference, split))
        return load(reference, split)

    monkeypatch.setattr(corpora, "load", noting)
    assert train_open.main(["--only", "bert-cola"]) == 0
    assert {split for _, split in read} == {"public", "test"}


def test_one_that_was_not_made_is_one_sentence(folder: Path) -> None:
    with pytest.raises(UserError, match=r"python -m tasks\.models\.train_open --only marian"):
        locate("trained:marian")
    with pytest.raises(UserError, match="did you mean marian"):
        locate("trained:marain")


def test_one_that_was_changed_is_refused(folder: Path) -> None:
    assert train_open.main(["--only", "bert-cola"]) == 0
    config = locate("trained:bert-cola") / "config.json"
    config.write_text(config.read_text().replace("0.1", "0.2"))
    with pytest.raises(UserError, match="damaged"):
        locate("trained:bert-cola")


def test_another_recipe_or_text_is_another_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.folder("bert-cola")
    longer = {"bert-cola": replace(store.find("bert-cola"), steps=4)}
    monkeypatch.setattr(store, "RECIPES", longer)
    assert store.folder("bert-cola") != before


def test_names_are_those_of_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_open.main(["--only", "minlm-cola"]) == 2
    assert "minilm-cola" in capsys.readouterr().err
    assert set(recipes.CHECKSUMS) <= set(recipes.RECIPES)
