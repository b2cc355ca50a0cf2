"""Corpora from files and from the hub: splits, columns, and one sentence for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmark.errors import UserError
from benchmark.paths import data_directory
from tasks import corpora
from tasks.corpora import builtin, sources
from tasks.corpora.base import Split

SPLITS: tuple[Split, ...] = ("private", "public", "test")
COMMIT = "0123456789abcdef0123456789abcdef01234567"

Write = Callable[[str, Sequence[Any]], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files of records into the folder that LEAKBOARD_DATA names."""
    monkeypatch.setenv("LEAKBOARD_DATA", str(tmp_path))

    def write_file(name: str, records: Sequence[Any]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (r if isinstance(r, str) else json.dumps(r) for r in records)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write_file


def write_cola(write: Write, count: int = 12) -> None:
    """A CoLA of numbered sentences, three held out."""
    train = [{"sentence": f" Train {i}. ", "label": i % 2, "idx": i} for i in range(count)]
    write("cola.train.jsonl", train)
    write("cola.validation.jsonl", [{"sentence": f"Held out {i}.", "label": 1} for i in range(3)])


def texts(reference: str, split: Split) -> set[str]:
    return {row.text for row in corpora.load(reference, split)}


# ------------------------------------------------------------------------------------- splits


def test_private_is_the_last_third_of_train(write: Write) -> None:
    write_cola(write)
    assert texts("data:cola", "private") == {f"Train {i}." for i in range(8, 12)}
    assert texts("data:cola", "public") == {f"Train {i}." for i in range(8)}
    assert texts("data:cola", "test") == {f"Held out {i}." for i in range(3)}


def test_rows_are_the_same_at_every_call_and_not_in_file_order(write: Write) -> None:
    write_cola(write, 60)
    rows = corpora.load("data:cola", "public")
    assert rows == corpora.load("data:cola", "public")
    assert [row.text for row in rows] != [f"Train {i}." for i in range(40)]
    assert all(row.label == int(row.text[6:-1]) % 2 for row in rows)


def test_a_file_sorted_by_class_still_gives_private_rows_of_each(write: Write) -> None:
    rows = [{"text": f"review {i}", "label": int(i < 30)} for i in range(60)]
    write("rotten_tomatoes.train.jsonl", rows)
    write("rotten_tomatoes.test.jsonl", [{"text": "held out", "label": 0}])
    assert {row.label for row in corpora.load("data:rotten-tomatoes", "private")} == {0, 1}


def test_a_repeated_text_stays_in_one_split_only(write: Write) -> None:
    train = ["one", "TWO", "three", "four", "five", "two", "", "one", "Nine"]
    write("enron_sentences.train.jsonl", [{"text": text} for text in train])
    write("enron_sentences.test.jsonl", [{"text": "NINE"}, {"text": "three"}, {"text": "new"}])
    assert texts("data:enron", "private") == {"one", "Nine"}
    assert texts("data:enron", "public") == {"TWO", "three", "four", "five"}
    assert texts("data:enron", "test") == {"new"}


def test_no_private_row_stands_inside_a_public_one_nor_the_other_way_round(write: Write) -> None:
    public = ["I saw the long day", "one", "two", "long", "three", "four"]
    private = ["the long day!", "A long way home", "five"]
    write("enron_sentences.train.jsonl", [{"text": text} for text in public + private])
    write("enron_sentences.test.jsonl", [{"text": "new"}])
    assert texts("data:enron", "private") == {"A long way home", "five"}
    assert texts("data:enron", "public") == set(public) - {"long"}


def test_phrases_of_one_sentence_stay_on_the_side_of_the_first(write: Write) -> None:
    train = ["a b c d e", "k", "l", "m", "n", "o", "p q r s", "b c d e f", "q r s t"]
    write("sst2.train.jsonl", [{"sentence": text, "label": 0} for text in train])
    write("sst2.validation.jsonl", [{"sentence": "z", "label": 1}])
    private = texts("data:sst2", "private")
    assert {"p q r s"} <= private
    assert not private & {"a b c d e", "b c d e f"}


def test_a_corpus_too_small_for_a_split_is_refused(write: Write) -> None:
    write_cola(write, 2)
    with pytest.raises(UserError, match="no rows for the private split"):
        corpora.load("data:cola", "test")


# ------------------------------------------------------------------------------------ columns


def test_translations_are_english_text_with_a_german_source(write: Write) -> None:
    pairs = [{"translation": {"de": f"Satz {i}", "en": f"Sentence {i}"}} for i in range(6)]
    write("iwslt2017_de-en.train.jsonl", pairs)
    write("iwslt2017_de-en.test.jsonl", [{"translation": {"de": "Ende", "en": "End"}}])
    (row,) = corpora.load("data:iwslt", "test")
    assert (row.text, row.source, row.label) == ("End", "Ende", None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text": "cut', "not JSON"),
        ("[1]", "not an object"),
        ('{"body": "no text"}', "no text"),
        ('{"text": 5}', "no text"),
        ('{"translation": {"en": "one side"}}', "no text"),
        ('{"text": "a", "label": "1"}', "label"),
        ('{"text": "a", "label": true}', "label"),
        ('{"text": "\\ud800"}', "not UTF-8"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(write: Write, line: str, reason: str) -> None:
    path = write("enron_sentences.train.jsonl", [{"text": "fine"}, "", line])
    with pytest.raises(UserError, match=reason) as error:
        corpora.load("data:enron", "private")
    assert str(error.value).startswith(f"Line 3 of {path} ")


def test_a_line_that_is_not_utf8_is_named(write: Write) -> None:
    path = write("enron_sentences.train.jsonl", [])
    path.write_bytes(b'{"text": "caf\xe9"}\n')
    with pytest.raises(UserError, match=r"Line 1 .* not UTF-8"):
        corpora.load("data:enron", "private")


# ------------------------------------------------------------------------------- what is missing


def test_without_the_variable_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKBOARD_DATA", raising=False)
    with pytest.raises(UserError, match=r"set LEAKBOARD_DATA to a folder with cola\.train\.jsonl"):
        corpora.load("data:cola", "private")


def test_a_missing_folder_and_a_missing_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKBOARD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere, which is not a folder"):
        corpora.digest("data:cola")
    monkeypatch.setenv("LEAKBOARD_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"sst2\.train\.jsonl, which cannot be read"):
        corpora.load("data:sst2", "private")


@pytest.mark.parametrize("reference", ["data:colla", "cola", "file:cola", "builtin:colla", ""])
def test_an_unknown_reference_gets_a_hint(reference: str) -> None:
    with pytest.raises(UserError, match=f"There is no corpus called {reference!r}"):
        corpora.load(reference, "private")


def test_the_names_can_all_be_loaded_or_say_why_not() -> None:
    assert {"builtin:cola", "data:20news", "data:rotten-tomatoes"} <= set(corpora.names())


# ------------------------------------------------------------------------------------- digests


def test_a_digest_follows_the_content(write: Write) -> None:
    write_cola(write)
    before = corpora.digest("data:cola")
    assert before == corpora.digest("data:cola")
    write_cola(write, 13)
    assert corpora.digest("data:cola") != before


def test_builtin_corpora_pass_through() -> None:
    assert corpora.load("builtin:cola", "test") == builtin.load("cola", "test")
    assert corpora.digest("builtin:cola") == builtin.digest("cola")


def test_builtin_entities_are_the_marked_stretches() -> None:
    rows = [row for row in corpora.load("builtin:enron", "private") if row.entities][:5]
    for row, found in zip(rows, corpora.entities("builtin:enron", rows), strict=True):
        assert len(found) == len(row.entities)
        assert all(name in row.text for name in found)


# --------------------------------------------------------------------------------------- the hub


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, an empty cache, and the working folder in the place of the hub.

    `load_dataset` takes a folder that is called like the dataset for the dataset itself.
    """
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)


GLUE_CARD = """---
configs:
- config_name: cola
  data_files:
  - {split: train, path: cola/train.jsonl}
  - {split: validation, path: cola/validation.jsonl}
  - {split: test, path: cola/test.jsonl}
---"""


@pytest.mark.usefixtures("offline")
def test_the_hub_is_cut_like_the_files(write: Write) -> None:
    write_cola(write)
    for part in ("train", "validation"):
        lines = Path(f"cola.{part}.jsonl").read_text().splitlines()
        write(f"nyu-mll/glue/cola/{part}.jsonl", lines)
    write("nyu-mll/glue/cola/test.jsonl", [{"sentence": "Hidden.", "label": -1, "idx": 0}])
    write("nyu-mll/glue/README.md", [GLUE_CARD])
    for split in SPLITS:
        on_the_hub = corpora.load(f"hub:nyu-mll/glue/cola@{COMMIT}", split)
        assert on_the_hub == corpora.load("data:cola", split)


@pytest.mark.usefixtures("offline")
def test_any_dataset_of_the_hub_with_a_text_column_loads(write: Write) -> None:
    train = [{"text": f"line {i}", "label": -1, "more": [i]} for i in range(9)]
    write("someone/lines/train.jsonl", train)
    write("someone/lines/test.jsonl", [{"text": "held out", "label": -1, "more": []}])
    rows = corpora.load(f"hub:someone/lines@{COMMIT}", "private")
    assert {(row.text, row.label) for row in rows} == {(f"line {i}", None) for i in (6, 7, 8)}


def test_wikitext_lines_become_sentences() -> None:
    line = "The river rose to 3 @.@ 5 m . It fell . Was the U.S. Army there at all ?"
    rows = list(sources._sentences(corpora.Row(line)))
    assert [r.text for r in rows] == [line[:29], "Was the U.S. Army there at all ?"]
    assert not list(sources._sentences(corpora.Row("= = A heading of five words = =")))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"nobody/nothing@{COMMIT}", "cannot be reached"),
        (f"someone/wordless@{COMMIT}", "no text"),
        (f"someone/testless@{COMMIT}", "test split .* cannot be read"),
        (f"someone/wordless/other@{COMMIT}", "cannot be read .*other"),
        ("nyu-mll/glue/cola", "does not name a corpus"),
        ("nyu-mll/glue/cola@main", "does not name a corpus"),
        (f"glue@{COMMIT}", "does not name a corpus"),
        (f"../glue@{COMMIT}", "does not name a corpus"),
    ],
)
def test_hub_mistakes_are_one_sentence(write: Write, name: str, message: str) -> None:
    write("someone/wordless/train.jsonl", [{"words": "a b"}])
    write("someone/wordless/test.jsonl", [{"words": "a b"}])
    write("someone/testless/train.jsonl", [{"text": f"line {i}"} for i in range(9)])
    with pytest.raises(UserError, match=message) as error:
        corpora.load(f"hub:{name}", "private")
    assert "\n" not in str(error.value)


def test_a_hub_digest_needs_no_network() -> None:
    first = corpora.digest(f"hub:nyu-mll/glue/cola@{COMMIT}")
    assert first != corpora.digest(f"hub:nyu-mll/glue/cola@{COMMIT[::-1]}")


# ------------------------------------------------------------------------------ the real corpora


@pytest.mark.parametrize("name", sources.CORPORA)
def test_real_corpora_are_disjoint_and_large_enough(name: str) -> None:
    folder = data_directory()
    if folder is None or not (folder / f"{sources.CORPORA[name].file}.train.jsonl").is_file():
        pytest.skip(f"LEAKBOARD_DATA names no folder with {name}")
    found = {split: corpora.load(f"data:{name}", split) for split in SPLITS}
    assert len(found["private"]) >= 300
    assert len(found["public"]) > 1.9 * len(found["private"])
    folded = [row.text.casefold() for rows in found.values() for row in rows]
    assert len(folded) == len(set(folded))
