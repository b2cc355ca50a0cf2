"""The contract's own code: the client's update and what it costs to send."""

from __future__ import annotations

import torch

from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.spec import Batch, Client, Update


def client(**changes: object) -> tuple[Client, Batch]:
    side = load_task(all_tasks()["mini/cola-b4"])
    room = model_package()
    model, _ = room.open_model(
        side.model_directory, "classification", "float64", torch.device("cpu")
    )
    made = Client(model, room.objective("classification"), room.roles(model),
                  torch.Generator(), **changes)  # type: ignore[arg-type]  # fmt: skip
    return made, side.private_batch(0, 0).batch


def test_local_steps_equal_plain_gradient_descent() -> None:
    """Against torch's own optimizer, sample by sample, and the model is left as it was."""
    made, batch = client(local_steps=4, learning_rate=0.01)
    names = [name for name, _ in made.model.named_parameters()]
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    update = made.update(batch, names)
    assert (update.kind, update.local_steps, update.learning_rate) == ("difference", 4, 0.01)
    for name, parameter in made.model.named_parameters():
        assert torch.equal(parameter, before[name])
    optimizer = torch.optim.SGD(made.model.parameters(), lr=0.01)
    for part in batch.split(4):
        optimizer.zero_grad()
        made.objective.loss(made.model, part).backward()
        optimizer.step()
    for name, parameter in made.model.named_parameters():
        torch.testing.assert_close(update.tensors[name], parameter.detach() - before[name])


def test_one_step_is_the_gradient_itself() -> None:
    made, batch = client()
    update = made.update(batch, ["classifier.weight"])
    assert update.kind == "gradient"
    assert list(update.tensors) == ["classifier.weight"]


def test_sparse_updates_are_cheaper_to_send() -> None:
    dense, sparse = torch.ones(100), torch.zeros(100)
    sparse[:3] = 1.0
    assert Update({"w": dense}).bytes_up == 400
    assert Update({"w": sparse}).bytes_up == 3 * 8
