"""Overlaps of texts: found inside one another, around one another, and hanging together."""

from __future__ import annotations

import random

from tasks.corpora.overlap import Texts, connected, words

TEXTS = ["a fine film", "Fine", "not a fine film at all .", "an evening", ""]


def test_case_spacing_and_punctuation_do_not_matter() -> None:
    texts = Texts(TEXTS)
    assert " A  FINE film!" in texts
    assert "a film fine" not in texts
    assert "" not in texts
    assert "?!" not in texts


def test_what_stands_inside_and_around() -> None:
    texts = Texts(TEXTS)
    assert sorted(texts.inside("It is not a fine film")) == [("a", "fine", "film"), ("fine",)]
    assert texts.inside("a finer film") == []
    assert sorted(texts.around("fine film")) == [words(TEXTS[0]), words(TEXTS[2])]
    assert texts.around("film a fine") == []
    assert texts.around("...") == []


def test_the_index_agrees_with_looking_everywhere() -> None:
    draw = random.Random(0)
    texts = [" ".join(draw.choices("abc", k=draw.randint(1, 6))) for _ in range(60)]
    index = Texts(texts)
    for text in [*texts, *(" ".join(draw.choices("abc", k=8)) for _ in range(40))]:
        held = {words(t) for t in texts if f" {t} " in f" {text} "}
        holders = {words(t) for t in texts if f" {text} " in f" {t} "}
        assert set(index.inside(text)) == held
        assert set(index.around(text)) == holders


def test_texts_hang_together_by_runs_of_words_and_by_one_another() -> None:
    texts = ["one two three", "nine two three four", "three four five", "other", "Four, five! six"]
    assert connected(texts, 2) == [0, 0, 0, 3, 0]
    assert connected(texts, 3) == [0, 1, 2, 3, 4]
    assert connected([], 2) == []
