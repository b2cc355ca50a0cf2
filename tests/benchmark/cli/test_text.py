"""Text that fits: nothing but a last column is cut, and no name is broken inside a word."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.cli import output, text
from benchmark.errors import UserError


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_last_column_is_cut_behind_a_word() -> None:
    rows = [("short", "fits"), ("a_longer_name", "many words " * 12)]
    first, second = text.aligned(rows)
    assert first == "short          fits"
    assert second.startswith("a_longer_name  many words many")
    assert second.endswith(("words…", "many…"))
    assert len(second) <= 80


def test_a_name_without_room_has_a_line_of_its_own() -> None:
    name = "lamp_cos[discrete=none,initial_candidates=30,learning_rate=0.05,steps=400,x=1]"
    rows = [("dager", "1.000", "1.000 to 1.000", "0.05"), (name, "0.5", "0.4 to 0.6", "1")]
    lines = list(text.aligned(rows, {1}))
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("dager  1.000")
    assert "".join(lines[1:-1]).replace(" ", "") == name
    assert lines[-1].split() == ["0.5", "0.4", "to", "0.6", "1"]


@given(
    st.lists(
        st.tuples(
            st.text("abc_", min_size=1, max_size=30),
            st.text("0123456789.", max_size=6),
            st.text(max_size=200),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_no_line_is_too_long_and_every_name_is_whole(rows: list[tuple[str, str, str]]) -> None:
    lines = list(text.aligned(rows, {1}))
    assert len(lines) == len(rows)
    for line, (name, _, _) in zip(lines, rows, strict=True):
        assert len(line) <= 80
        assert line.split(" ")[0] == name
        assert line.isprintable()


def test_words_of_others_do_not_steer_a_terminal() -> None:
    assert text.printable("a\x1b[2Jb\nc\x07") == "a [2Jb c"


def test_the_width_is_80_where_output_is_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.__stdout__", io.StringIO())
    assert text.width() == 80


def test_csv_has_every_key_and_nested_values_as_json() -> None:
    stream = io.StringIO()
    output.write_csv([{"a": 1, "b": None}, {"a": "x,y", "c": {"k": [1, 2]}}], stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [row["a"] for row in rows] == ["1", "x,y"]
    assert rows[0]["b"] == ""
    assert json.loads(rows[1]["c"]) == {"k": [1, 2]}


def test_two_formats_are_a_mistake() -> None:
    with pytest.raises(UserError, match="exclude each other"):
        output.output_format(True, True)
