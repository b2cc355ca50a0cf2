"""Beside each improved attack stands the paper's: its settings, and none of our rules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from submissions.attacks.dlg import DLG
from submissions.attacks.film import Film
from submissions.attacks.flat_chat import FlatChat
from submissions.attacks.lamp_cos import LampCos
from submissions.attacks.lamp_l2l1 import LampL2L1
from submissions.attacks.tag import TAG
from submissions.blocks.output_layer.mixture import fit_mixture
from submissions.blocks.output_layer.sizes import PublicBatches
from tests.submissions import film_setup
from tests.submissions.test_matching_models import make_public, observe

pytestmark = pytest.mark.usefixtures("one_thread")

MATCHING = {"zeros": "matched", "answer": "last", "labels": "auto", "optimizer": "adam", "clip": 0}
LAMP = MATCHING | {
    "steps": 2000, "learning_rate": 0.01, "decay": 0.89, "decay_every": 50,
    "initial_candidates": 500, "initial_permutations": 500, "discrete": "alternating",
    "discrete_start": 0.1, "discrete_every": 75, "discrete_candidates": 200,
}  # fmt: skip
PAPERS: list[tuple[Any, dict[str, Any]]] = [
    (DLG, MATCHING | {"steps": 2500, "learning_rate": 0.1, "decay": 1.0}),
    (TAG, MATCHING | {"steps": 2500, "learning_rate": 0.1, "decay": 1.0, "l1_weight": 0.01}),
    (LampCos, LAMP | {"language_weight": 0.2, "length_weight": 1.0}),
    (LampL2L1, LAMP | {"language_weight": 60.0, "length_weight": 25.0, "l1_weight": 0.01}),
]


@pytest.mark.parametrize(("attack", "paper"), PAPERS, ids=lambda each: getattr(each, "name", ""))
def test_the_plain_name_has_the_settings_of_the_paper(attack: Any, paper: dict[str, Any]) -> None:
    assert {name: attack().settings[name] for name in paper} == paper
    ours = attack.variants[f"{attack.name}_adapted"]
    assert ours == {"zeros": "skipped", "answer": "best"}
    assert ours.items() <= attack.variants[f"{attack.name}_quick"].items()


def test_lamp_rearranges_in_24_rounds() -> None:
    assert len(LampCos().phases) == 24


@pytest.mark.parametrize("attack", [DLG, TAG])
def test_the_papers_answer_with_the_last_point_and_ours_with_the_best(attack: Any) -> None:
    """A step reports the loss of the point before it, so one step more reports the last point's."""
    observation = observe(make_public("bert"), "word1 word2 word3 word4 word5")
    reported: dict[tuple[int, str], list[float]] = {}
    losses = {}
    for steps, answer in ((10, "last"), (10, "best"), (11, "last")):
        seen = reported.setdefault((steps, answer), [])
        watched = replace(observation, report=partial(_note_loss, seen))
        made = attack(steps=steps, learning_rate=0.5, answer=answer)
        ((_, loss, _),) = made._reconstruct(made._problems(watched, 0), 1.0)
        losses[steps, answer] = loss
    assert losses[10, "best"] == pytest.approx(min(reported[10, "best"]), rel=1e-4)
    assert losses[10, "last"] == pytest.approx(reported[11, "last"][-1], rel=1e-4)
    assert losses[10, "last"] != pytest.approx(losses[10, "best"], rel=1e-4)


def _note_loss(seen: list[float], step: int, steps: int, loss: float) -> None:
    seen.append(loss)


def test_the_papers_match_the_zeros_of_a_sparse_update_too() -> None:
    observation = observe(make_public("bert"), "word1 word2 word3")
    tensors = {name: tensor.clone() for name, tensor in observation.update.tensors.items()}
    for tensor in tensors.values():
        tensor.flatten()[: int(0.99 * tensor.numel())] = 0
    pruned = replace(observation, update=replace(observation.update, tensors=tensors))
    (plain,) = DLG()._problems(pruned, 0)
    (adapted,) = DLG(zeros="skipped")._problems(pruned, 0)
    assert not plain.sparse
    assert adapted.sparse
    assert not DLG(zeros="skipped")._problems(observation, 0)[0].sparse


def test_film_as_released_has_none_of_our_rules() -> None:
    public = film_setup.make_public()
    observation = film_setup.observe(public)
    attack = Film(**Film.variants["film_paper"])
    assert (attack.settings["phrase_steps"], attack.settings["token_steps"]) == (100, 100)
    assert attack.settings["patience"] == 0
    quick = Film(**{**Film.variants["film_paper"], "phrase_steps": 1, "token_steps": 1})
    plan = quick._plan(observation, *bag_of(observation))
    assert not plan.is_length
    assert plan.penalties.uneven == 0
    assert quick.recover(observation).sentences


def bag_of(observation: Any) -> tuple[Any, Any]:
    from submissions.blocks.film.language import Language
    from submissions.blocks.token_sets.bag import read_bag

    return Language(observation.public), read_bag(observation)


def test_flat_chat_as_published_fits_a_plain_line() -> None:
    assert FlatChat.variants["flat_chat_paper"] == {
        "degree": 1,
        "errors": "absolute",
        "batches": 20,
    }
    generator = torch.Generator().manual_seed(0)
    counts = np.array([20, 40, 80, 160])
    sums = torch.randn(4, 1000, generator=generator) * 0.01
    for row, count in enumerate(counts):
        sums[row, :count] = torch.randn(int(count), generator=generator)
    batches = PublicBatches(sums, counts, seed=3)
    weights = [fit_mixture(own, 3 + n, 10).weight for n, own in enumerate(sums)]
    plain = batches.fit(1, 10, relative=False)
    np.testing.assert_allclose(plain.coefficients, np.polyfit(weights, counts, 1))
    ours = batches.fit(1, 10).coefficients
    assert not np.allclose(ours, plain.coefficients)
