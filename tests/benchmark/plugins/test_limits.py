"""What a submission says of itself is bounded: one that goes too far is broken, and alone so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmark.execution.events import Failed, Progress, Recovered, parse_event
from benchmark.files import LONGEST_NOTE, LONGEST_REASON, file_name, one_line
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.description import Description
from benchmark.plugins.limits import description_problem, taken_name
from benchmark.results.schema import Status
from benchmark.spec import Parameter
from tests.conftest import Command
from tests.harness import RunCells

PLAIN = Description(
    name="fine", summary="It is fine.", paper="", allow_tf32=False, baseline=False,
    parameters={"steps": Parameter(10, "how many", low=1), "loss": Parameter("l2", "which one")},
    variants={"fine_quick": {"steps": 5}}, observes=(), needs=("labels",), objectives=(),
    overrides=(),
)  # fmt: skip


def with_steps(**changes: Any) -> dict[str, Any]:
    return {"parameters": {"steps": replace(PLAIN.parameters["steps"], **changes)}, "variants": {}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "é" * 60}, "64 ASCII letters"),
        ({"name": "a" * 65}, "64 ASCII letters"),
        ({"name": "-x"}, "the first a letter or digit"),
        ({"name": "a\n"}, "64 ASCII letters"),
        ({"name": "a+b"}, "64 ASCII letters"),
        ({"summary": "x" * 501}, "summary is longer than 500"),
        ({"paper": "two\nlines"}, "paper holds line breaks"),
        ({"summary": "\x1b[31m"}, "control characters"),
        ({"observes": ("x y",)}, "requirement"),
        ({"needs": ("x y",)}, "asks for the knowledge 'x y'"),
        ({"uses": ("truth",)}, "which is none of labels, lengths"),
        (with_steps(without=0), "steps=0 is out of range"),
        ({"observes": ("x",) * 101}, "more than 100 observes"),
        ({"parameters": {"a b": Parameter(1, "")}, "variants": {}}, "its parameter 'a b'"),
        ({"variants": {"other_quick": {}}}, "does not begin with its name"),
        ({"variants": {"fine_é": {}}}, "64 ASCII letters"),
        ({"variants": {"fine_slow": {"stops": 1}}}, "sets 'stops', which is no parameter"),
        ({"variants": {"fine_slow": {"steps": 0}}}, "steps=0 is out of range"),
        ({"variants": {"fine_slow": {"steps": "many"}}}, "not of type int"),
        ({"variants": {"fine_slow": {"loss": "x" * 5000}}, "paper": "y" * 501}, "paper is longer"),
        (with_steps(default=0), "steps=0 is out of range"),
        (with_steps(default=float("inf"), low=None), "out of range"),
        (with_steps(low=float("-inf")), "not finite"),
        (with_steps(default="ten"), "no number as its default"),
        (with_steps(meaning="x" * 501), "longer than 500"),
        (with_steps(choices=("ten",)), "choices of another type"),
        (with_steps(grid=tuple(range(101))), "too many or too long values"),
        (with_steps(grid=("x" * 101,)), "too many or too long values"),
        ({"variants": {f"fine_{i}": {"loss": "x" * 999} for i in range(101)}}, "100,000 bytes"),
    ],
)
def test_a_description_out_of_bounds_is_one_sentence(changes: dict[str, Any], words: str) -> None:
    assert description_problem(PLAIN) is None
    problem = description_problem(PLAIN.model_copy(update=changes))
    assert problem is not None
    assert words in problem
    assert len(problem) < 400


def test_names_of_submissions_and_variants_are_one_kind_of_name() -> None:
    owners = {"lamp_cos": "lamp_cos.py", "lamp_cos_quick": "lamp_cos.py"}
    assert taken_name(["mine", "mine_quick"], owners) is None
    assert taken_name(["lamp_cos_quick"], owners) is not None
    stolen = taken_name(["lamp", "lamp_Cos"], owners)  # some file systems do not tell case
    assert stolen == "the name 'lamp_Cos' is taken by lamp_cos.py already"


def test_bad_names_and_thieves_are_broken_and_the_rest_is_there(
    catalogs: tuple[Catalog, Catalog],
) -> None:
    reasons = {item.where.rpartition("/")[2]: item.reason for item in catalogs[0].broken}
    assert "64 ASCII letters" in reasons["accented.py"]
    assert "'lamp_cos_quick' is taken by submissions/attacks/lamp_cos.py" in reasons["usurper.py"]
    assert "'lamp_Cos' is taken by submissions/attacks/lamp_cos.py" in reasons["lamp.py"]
    assert "steps=-5 is out of range" in reasons["overdrawn.py"]
    named = catalogs[0].names()
    assert named["lamp_cos_quick"][0].name == named["lamp_cos"][0].name == "lamp_cos"
    assert {"random", "manner", "manner_silent"} <= named.keys()


def test_a_value_that_makes_a_file_name_too_long_is_one_sentence(
    leakboard: Command, plugins: object
) -> None:
    assert file_name("dlg[steps=4]") == "dlg[steps=4]"
    long = f"subtract[salt={'é' * 40}]"
    done = leakboard("run", "--task", "cola", "--attack", long, LEAKBOARD_SUBMISSIONS=plugins)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "makes a file name of" in last
    assert "Traceback" not in done.stderr


# -------------------------------------------------------------------------------------- events


@pytest.mark.parametrize("way", ["seconds", "memory", "bytes", "tokens", "index"])
def test_absurd_numbers_are_invalid_and_the_run_goes_on(way: str, run_cells: RunCells) -> None:
    name = "absurd" if way == "seconds" else f"absurd[way={way}]"
    first, second = run_cells(f"{name},random")
    assert first.status is Status.INVALID
    assert "breaks the protocol" in first.reason
    assert first.model_dump_json()
    assert second.status is Status.OK


def test_absurd_words_are_cut_and_absurd_progress_is_ignored(run_cells: RunCells) -> None:
    assert run_cells("absurd[way=progress]")[0].status is Status.OK
    note = run_cells("absurd[way=note]")[0].snapshots[0].note
    assert len(note) == LONGEST_NOTE
    assert note.isprintable()
    failed = run_cells("absurd[way=reason]")[0]
    assert failed.status is Status.ERROR
    assert len(failed.reason) < LONGEST_REASON + 100


def test_a_text_becomes_one_line() -> None:
    assert one_line("plain") == "plain"
    assert one_line("two\nlines\x1b") == "two lines "
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_events_are_bounded_one_by_one() -> None:
    start = '{"event": "recovered", "index": 0, "status": "ok", "seconds": 1.0, '
    assert isinstance(parse_event(start + '"sentences": [[1, 2]]}'), Recovered)
    many = parse_event(start + f'"sentences": {[[1] * 1000] * 2001}}}')
    assert isinstance(many, Failed)
    assert "2,000,000 tokens" in many.reason
    progress = parse_event(
        '{"event": "progress", "index": 0, "step": 1e99, "steps": 5, "loss": NaN}'
    )
    assert isinstance(progress, Failed)  # a step is a whole number
    progress = parse_event(f'{{"event": "progress", "index": 0, "step": {10**99}, "steps": 5, '
                           '"loss": Infinity}')  # fmt: skip
    assert isinstance(progress, Progress)
    assert (progress.step, progress.steps, progress.loss) == (10**9, 5, None)
