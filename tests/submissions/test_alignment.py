"""What `table_alignment` asks of a model: what its first layer would read of each word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import nn

from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.spec import Observation, Prior, Public
from submissions.blocks.alignment.ordering import ordered_by_prior
from submissions.blocks.alignment.reading import _inputs, first_reading, row_space

LAYERS = {
    "mini/agnews-fl": "bilstm.forwards.input_map",
    "mini/agnews-fl-distilbert": "distilbert.transformer.layer.0.attention.q_lin",
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("task", LAYERS)
def test_a_layer_reads_what_a_whole_forward_pass_hands_it(task: str) -> None:
    folder = load_task(all_tasks()[task]).model_directory
    model, _ = model_package().open_model(folder, "classification", "float32", torch.device("cpu"))
    layer = cast("nn.Linear", model.get_submodule(LAYERS[task]))
    table = model.get_input_embeddings().weight.detach()[:20]  # type: ignore[operator]
    found = _inputs(cast("Public", SimpleNamespace(model=model, table=table)), layer, places=3)
    read: list[torch.Tensor] = []
    layer.register_forward_hook(lambda module, given, result: read.append(given[0].detach()))
    mask = torch.ones(20, 3, dtype=torch.long)
    with torch.no_grad():
        model(inputs_embeds=table[:, None, :].expand(-1, 3, -1), attention_mask=mask)
    whole = read[0].double().transpose(0, 1)  # (P, V, D)
    assert len(found) == (1 if task == "mini/agnews-fl" else 3), "places matter to a Transformer"
    assert torch.allclose(found, whole[: len(found)], atol=1e-6)


@pytest.mark.parametrize("task", LAYERS)
def test_a_layer_above_the_pooling_reads_no_words(task: str) -> None:
    """A client that shares no more than its output layer gives this attack nothing to read."""
    folder = load_task(all_tasks()[task]).model_directory
    model, _ = model_package().open_model(folder, "classification", "float32", torch.device("cpu"))
    table = model.get_input_embeddings().weight.detach()[:20]  # type: ignore[operator]
    tensors = {"classifier.weight": torch.randn_like(model.get_parameter("classifier.weight"))}
    observation = SimpleNamespace(
        public=SimpleNamespace(model=model, table=table), update=SimpleNamespace(tensors=tensors)
    )
    assert first_reading(cast("Observation", observation), places=3, tolerance=1e-4) is None


def test_the_row_space_holds_what_was_summed_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 8, generator=generator)
    gradient = torch.randn(5, 3, generator=generator) @ inputs
    span = row_space(gradient, 1e-4)
    assert span.shape == (3, 8)
    inside = inputs.double() @ span.T @ span
    assert torch.allclose(inside, inputs.double(), atol=1e-5)


class Chain:
    """A language model to which each token is likely after the one before it, and only there."""

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> torch.Tensor:
        costs = []
        for sentence in sentences:
            steps = pairwise(sentence)
            broken = sum(second != first + 1 for first, second in steps)
            costs.append((sentence[0] + broken) / len(sentence))
        return torch.tensor(costs)


@pytest.mark.parametrize("size", [4, 7, 10])
def test_words_come_in_the_order_that_the_prior_likes_each_once_before_any_twice(size: int) -> None:
    found = ordered_by_prior(cast("Prior", Chain()), [5, 0, 3, 6, 1, 4, 2], size, beams=2)
    assert found == [*range(7), *range(7)][:size]
