"""Nobody has read the private text before: neither the attacker's text nor what models learn from.

Everything is compared as text. A pattern is a sentence whose named entities and numbers are blanked
where the annotation and the digits say, whatever rule of a grammar wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmark.paths import data_directory
from benchmark.plugins.registry import all_tasks
from benchmark.suites import Task
from tasks import corpora
from tasks.corpora import builtin, sources
from tasks.corpora.base import Row, Split
from tasks.corpora.builtin import NAMES
from tasks.corpora.builtin.grammar import FOLDER, Rule, Table, read_grammar
from tasks.models.pretraining.text import RealText

PHRASES = ("sst2", "sst2-fl")
PATTERNS_SHARED = 0.0
"""The share of private sentences whose pattern may stand in public text: none."""
ALIKE = 0.8
LIKE_SHARED = 0.06
"""The share of private sentences that may be so much like a public one, names aside."""


def words(text: str) -> str:
    """A text as it is compared: its words alone, in lower case, each followed by a blank."""
    return "".join(f"{word} " for word in re.findall(r"[^\W_]+", text.casefold()))


def inside(phrases: Iterable[str], texts: Iterable[str]) -> list[str]:
    """The phrases that stand whole in one of the texts."""
    starts: dict[tuple[str, ...], list[str]] = {}
    for phrase in filter(None, map(words, phrases)):
        starts.setdefault(tuple(phrase.split()[:2]), []).append(phrase)
    found = set()
    for text in texts:
        own = words(text).split(" ")[:-1]
        for at in range(len(own)):
            for size in (1, 2):
                for phrase in starts.get(tuple(own[at : at + size]), ()):
                    rest = " ".join(own[at : at + phrase.count(" ")]) + " "
                    found |= {phrase} if rest == phrase else set()
    return sorted(found)


def test_phrases_are_found_inside() -> None:
    texts = ["Well, it is a fine, long day!", "fine"]
    assert inside(["a FINE long", "day", "fine day", "long da", "..."], texts) == [
        "a fine long ",
        "day ",
    ]


def pattern(row: Row) -> str:
    """The sentence without its named entities and numbers."""
    text = row.text
    for entity in sorted(row.entities, key=lambda e: -e.start):
        text = f"{text[: entity.start]}█{text[entity.end :]}"
    return re.sub(r"\d+(?:[.,]\d+)*", "█", text.casefold())


@cache
def rows(split: Split) -> tuple[Row, ...]:
    """A split of all builtin corpora."""
    return tuple(row for name in NAMES for row in builtin.load(name, split))


# -------------------------------------------------------------------------------------- builtin


def test_no_private_text_is_public_or_tested_in_any_corpus() -> None:
    others = {words(row.text): row for split in ("public", "test") for row in rows(split)}
    assert [row for row in rows("private") if words(row.text) in others] == []


def test_no_two_corpora_have_a_text_in_common() -> None:
    owners: dict[str, str] = {}
    for name in NAMES:
        for split in ("private", "public", "test"):
            for row in builtin.load(name, split):
                assert owners.setdefault(words(row.text), name) == name, row


def test_no_private_row_stands_in_public_text() -> None:
    private = [row.text for row in rows("private")]
    assert inside(private, (row.text for row in rows("public"))) == []


def test_no_public_phrase_stands_in_a_private_one() -> None:
    private, public = (
        [row.text for name in PHRASES for row in builtin.load(name, split)]
        for split in ("private", "public")
    )
    assert inside(public, private) == []


@pytest.mark.parametrize("name", NAMES)
def test_private_sentences_have_patterns_of_their_own(name: str) -> None:
    public = {pattern(row) for row in rows("public")}
    private = [pattern(row) for row in builtin.load(name, "private")]
    assert sum(p in public for p in private) <= PATTERNS_SHARED * len(private)


def test_blanking_takes_names_and_numbers() -> None:
    rows = [row for row in builtin.load("wikitext", "public") if "(born" in row.text]
    assert re.fullmatch(r"█ \(born █\) is an? [a-z]+ .*", pattern(rows[0])), rows[0]
    assert len({pattern(row) for row in rows}) < len(rows)


def likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """Twice the longest common subsequence over both lengths."""
    before = [0] * (len(other) + 1)
    for word in one:
        row = [0]
        for at, against in enumerate(other):
            row.append(before[at] + 1 if word == against else max(before[at + 1], row[-1]))
        before = row
    return 2 * before[-1] / (len(one) + len(other))


@pytest.mark.parametrize("name", NAMES)
def test_hardly_a_private_sentence_is_like_a_public_one(name: str) -> None:
    """Not only equal patterns are kept apart: a word or two of difference would not be enough."""
    holders: dict[tuple[str, ...], set[str]] = {}
    for row in builtin.load(name, "public"):
        own = pattern(row).split()
        for run in zip(own, own[1:], own[2:], strict=False):
            holders.setdefault(run, set()).add(pattern(row))
    private = [pattern(row).split() for row in builtin.load(name, "private")[:50]]
    alike = 0
    for own in private:
        runs = [holders.get(run, set()) for run in zip(own, own[1:], own[2:], strict=False)]
        near = sorted({each for some in runs if len(some) < 50 for each in some})
        alike += any(likeness(own, each.split()) >= ALIKE for each in near)
    assert alike <= LIKE_SHARED * len(private)


def test_both_sides_of_a_divided_rule_have_several_patterns() -> None:
    divided = 0
    for file in sorted(FOLDER.glob("*.txt")):
        if "~ " not in file.read_text("utf-8"):
            continue
        for name, part in read_grammar((file.name,)).items():
            shared = part.alternatives if isinstance(part, Rule) else part.rows
            assert isinstance(part, Rule | Table)
            if part.private:
                divided += 1
                assert len(part.private) >= 2, f"{file.name}: {name}"
                assert len(shared) >= 2, f"{file.name}: {name}"
    assert divided > 50


# ----------------------------------------------------------------------------------- real text


def real_folder(*files: str) -> Path:
    """The folder of real corpora, or a skipped test."""
    folder = data_directory()
    if folder is None or not all((folder / file).is_file() for file in files):
        pytest.skip(f"LEAKBOARD_DATA names no folder with {' and '.join(files)}")
    return folder


def test_the_real_text_of_the_training_holds_no_private_row() -> None:
    folder = real_folder("wikitext_sentences.train.jsonl", "rotten_tomatoes.train.jsonl")
    private = [row.text for row in rows("private")]
    for name in ("wikitext", "reviews"):
        sentences = RealText(folder).sentences(name)
        assert len(sentences) > 4000
        assert inside(private, sentences) == []


def test_real_sentences_that_hold_a_private_row_are_left_out(tmp_path: Path) -> None:
    phrase = builtin.load("sst2", "private")[0].text
    lines = [f'{{"text": "{text}"}}' for text in (f"Well , {phrase} !", "something else")]
    (tmp_path / "rotten_tomatoes.train.jsonl").write_text("\n".join(lines))
    assert RealText(tmp_path).sentences("reviews") == ["something else"]


OPEN = sorted({(t.corpus, t.public_corpus or t.corpus) for t in all_tasks().values()
               if t.corpus.startswith("data:")})  # fmt: skip


@pytest.mark.parametrize(("corpus", "public"), OPEN)
def test_no_private_row_stands_in_the_public_text_of_its_task(corpus: str, public: str) -> None:
    layouts = [sources.CORPORA[name.partition(":")[2]] for name in (corpus, public)]
    real_folder(*(f"{layout.file}.train.jsonl" for layout in layouts))
    private = [row.text for row in corpora.load(corpus, "private")]
    assert inside(private, (row.text for row in corpora.load(public, "public"))) == []


def test_phrases_of_one_sentence_stay_on_one_side() -> None:
    real_folder("sst2.train.jsonl", "sst2.validation.jsonl")

    def runs(split: Split) -> set[tuple[str, ...]]:
        texts = [words(row.text).split() for row in corpora.load("data:sst2", split)]
        return {tuple(text[at : at + 4]) for text in texts for at in range(len(text) - 3)}

    assert not runs("private") & runs("public")


def test_every_task_that_reads_real_text_is_checked() -> None:
    tasks: list[Task] = list(all_tasks().values())
    assert {t.corpus for t in tasks if t.name.startswith("open/")} == {corpus for corpus, _ in OPEN}
