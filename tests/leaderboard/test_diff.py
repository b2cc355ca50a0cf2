"""Words of a recovered sentence are marked, and names become safe file names."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.render.diff import MAX_WORDS, compare
from leaderboard.render.slugs import slug, submission_page, task_page

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "."]), max_size=8)


def hits(truth: str, recovered: str) -> list[str]:
    """The marks of the recovered words."""
    return [word.hit for word in compare(truth, recovered)]


def longest_common(left: list[str], right: list[str]) -> int:
    """Plain recursive reference."""
    if not left or not right:
        return 0
    if left[0] == right[0]:
        return 1 + longest_common(left[1:], right[1:])
    return max(longest_common(left[1:], right), longest_common(left, right[1:]))


def test_words_in_order_and_elsewhere() -> None:
    assert hits("the cat sat down", "the sat cat up") == ["ordered", "ordered", "elsewhere", ""]


def test_case_and_punctuation_do_not_matter() -> None:
    assert hits("Hello, World!", "hello world") == ["ordered", "ordered"]


def test_lone_punctuation_is_no_hit() -> None:
    assert hits("a . b", ". .") == ["", ""]


def test_a_word_is_right_no_more_often_than_the_truth_has_it() -> None:
    assert sorted(hits("leak now", "leak leak leak")) == ["", "", "ordered"]


def test_endless_text_is_cut() -> None:
    assert len(compare("a", "x " * 10_000)) == MAX_WORDS + 1
    assert len(compare("a", "x" * 10_000)[0].text) < 100


@given(WORDS, WORDS)
def test_marks_agree_with_the_reference(truth: list[str], recovered: list[str]) -> None:
    marks = hits(" ".join(truth), " ".join(recovered))
    true_words = [word for word in truth if word != "."]
    words = [word for word in recovered if word != "."]
    assert marks.count("ordered") == longest_common(true_words, words)
    shared = sum(min(true_words.count(w), words.count(w)) for w in set(words))
    assert marks.count("ordered") + marks.count("elsewhere") == shared


def test_plain_names_stay_readable() -> None:
    assert task_page("mini/cola-b4") == "tasks/mini.cola-b4.html"
    assert submission_page("attack", "bag_of_words") == "submissions/attack-bag_of_words.html"


NAMES = st.text(st.sampled_from("abAB./~-_ <é\\\0"), max_size=6) | st.text(max_size=80)


@given(NAMES, NAMES)
def test_slugs_are_safe_and_never_collide(name: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9_.~-]{0,150}", slug(name))
    assert ".." not in slug(name)
    assert (slug(name) == slug(other)) == (name == other)
