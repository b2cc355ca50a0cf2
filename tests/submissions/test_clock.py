"""The clock saves runs and decides nothing: answers are the same whatever it says, or marked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmark.execution.observing import Countdown
from benchmark.results.schema import Status
from benchmark.spec import Attack, Observation, Recovery
from submissions.attacks.dager import Dager
from submissions.attacks.film import Film
from submissions.attacks.lamp_cos import LampCos
from submissions.attacks.rlg import RevealLabels
from submissions.blocks.clock import Clock
from submissions.blocks.dager.decoder import Found, PrefixSearch
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.encoder import SentenceSearch
from tests.harness import RunCells
from tests.submissions import film_setup, test_dager_blocks, test_flat_chat, test_rlg
from tests.submissions.test_matching_search import QUICK, snapshots

pytestmark = pytest.mark.usefixtures("one_thread")

BATCH = [[3, 14, 15, 9, 2, 6], [5, 35, 8, 14], [11, 7, 20, 2, 2, 9]]


def dager_on(kind: str) -> tuple[Attack, Observation]:
    """Too little work for the whole batch, so that where the search ends shows."""
    work = {"bert": 0.0025, "llama": 0.002}[kind]
    return Dager(work=work), test_dager_blocks.observe(kind, BATCH)[0]


def lamp() -> tuple[Attack, Observation]:
    return LampCos(**QUICK), snapshots()[0]


def film() -> tuple[Attack, Observation]:
    attack = Film(beams=4, groups=2, phrase_steps=3, token_steps=3, proposals=8)
    return attack, film_setup.observe(film_setup.make_public())


def rlg() -> tuple[Attack, Observation]:
    gradient, _ = test_rlg.output_gradient(2000, 96, 12, 16)
    return RevealLabels(), test_flat_chat.observed(test_flat_chat.public_of("mini/iwslt"), gradient)


Case = Callable[[], tuple[Attack, Observation]]
CASES: dict[str, Case] = {
    "dager, encoder": lambda: dager_on("bert"),
    "dager, decoder": lambda: dager_on("llama"),
    "lamp": lamp,
    "film": film,
    "rlg": rlg,
}


def answer(case: Case, seconds_left: Callable[[], float] | None = None) -> Recovery:
    attack, observation = case()
    if seconds_left is not None:
        observation = replace(observation, seconds_left=seconds_left)
    return attack.recover(observation)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("pace", [1e-6, 0.01, 40.0])
def test_no_answer_depends_on_how_fast_the_clock_runs(
    case: Case, pace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load of 40 looks like this, and a machine a hundred times as fast."""
    expected = answer(case)
    assert not expected.stopped_by_clock
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: pace * real())
    assert answer(case, Countdown(6000.0)) == expected


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nor_on_how_much_is_left_while_something_is(case: Case) -> None:
    assert answer(case, lambda: 10.0) == answer(case, lambda: 1e15) == answer(case)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_answer_that_time_has_cut_says_so(case: Case) -> None:
    found = answer(case, lambda: -1.0)
    assert found.stopped_by_clock
    assert found.note


@pytest.mark.parametrize(("case", "asked"), [(lamp, 2), (lamp, 12), (lambda: dager_on("bert"), 2)])
def test_an_answer_cut_half_way_says_so(case: Case, asked: int) -> None:
    """LAMP in its start and in its steps, DAGER between two sweeps."""
    left = iter([50.0] * asked + [0.0] * 10_000)
    assert answer(case, lambda: next(left)).stopped_by_clock


def test_a_whole_batch_is_whole_whatever_the_clock_says() -> None:
    observation, _ = test_dager_blocks.observe("bert", BATCH[:1])
    found = Dager().recover(replace(observation, seconds_left=lambda: -1.0))
    assert found == Dager().recover(observation)


# ------------------------------------------------------------------------------ the clock itself


def test_a_clock_has_its_share() -> None:
    now = 0.0
    clock = Clock(lambda: 100.0 - now, share=0.25)
    assert clock.total == clock.left() == 25.0
    now = 24.0
    assert not clock.is_up()
    assert not clock.stopped
    assert clock.is_up(needed=2.0)
    assert clock.stopped
    now = 26.0
    assert clock.is_up()


def test_steps_end_before_one_might_not_fit_in() -> None:
    """Each takes two seconds, so that the last begins with seven left."""
    now = 0.0
    clock = Clock(lambda: 20.0 - now)
    for _ in clock.steps(100):
        now += 2.0
    assert 20.0 - now <= 7.0 < 20.0 - now + 2.0
    assert clock.stopped


def test_without_a_limit_all_steps_are_done() -> None:
    clock = Clock(lambda: float("inf"), share=0.5)
    assert list(clock.steps(5)) == [1, 2, 3, 4, 5]
    assert not clock.is_up()
    assert not clock.is_up(clock.total / 2)
    assert not clock.stopped


# ----------------------------------------------------------------------------------- counted work


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_dager_ends_by_its_work_and_says_so(kind: str) -> None:
    attack, observation = dager_on(kind)
    found = attack.recover(observation)
    assert found.note.startswith("The work was done.")
    assert not found.stopped_by_clock
    assert found.sentences
    assert len(set(map(tuple, Dager().recover(observation).sentences))) == len(BATCH)


def test_an_encoder_s_search_ends_as_soon_as_it_has_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where further lengths would fit."""
    search: Any = object.__new__(SentenceSearch)
    search.found, search.best, search.rounds, search.turn = [], {}, 12, 0
    search.effort = Effort(10**9, Clock(lambda: 100.0))
    tried: list[int] = []

    def find_two(search: Any, length: int, most: int) -> None:
        tried.append(length)
        search.found += [Found((1,) * length, 0.0), Found((2,) * length, 0.0)]

    monkeypatch.setattr(SentenceSearch, "_round", find_two)
    assert len(search.run((5, 6, 7), False, 2, one=False)) == 2
    assert tried == [5]


def test_a_decoder_s_search_ends_one_step_after_the_longest_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That step shows that nothing goes on."""
    observation, ids = test_dager_blocks.observe("llama", BATCH)
    places: list[int] = []
    extend = PrefixSearch._extend

    def counted(search: Any, prefixes: Any, *rest: Any, **named: Any) -> Any:
        places.append(prefixes.ids.shape[1])
        return extend(search, prefixes, *rest, **named)

    monkeypatch.setattr(PrefixSearch, "_extend", counted)
    assert len(Dager().recover(observation).sentences) == len(BATCH)
    longest = max(len([i for i in row if i != 0]) for row in ids.tolist())
    assert places == list(range(max(places) + 1))
    assert len(places) <= longest + 1 < observation.public.max_tokens


# ------------------------------------------------------------------------------- in the harness


def test_a_record_says_which_snapshots_time_has_cut(run_cells: RunCells) -> None:
    hurried = run_cells("lamp_cos_quick[steps=100000]", time_limit=15)[0]
    assert hurried.status is Status.OK, hurried.reason
    assert all(s.stopped_by_clock for s in hurried.snapshots)
    assert all(s.sentences for s in hurried.snapshots)
    ample = run_cells("lamp_cos_quick[steps=10]", time_limit=300)[0]
    assert ample.status is Status.OK, ample.reason
    assert not any(s.stopped_by_clock for s in ample.snapshots)
