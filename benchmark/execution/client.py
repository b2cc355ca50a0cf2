"""The one place where a defense is asked for an update: snapshots and training both come here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmark.errors import InvalidUpdate
from benchmark.execution.jobs import ClientSettings
from benchmark.execution.randomness import fill, seed_process
from benchmark.execution.seeds import derive_seed
from benchmark.plugins.registry import model_package
from benchmark.spec import Batch, Client, Defense, Unsupported, Update

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

NOTHING_SENT = "nothing leaves the client, so there is nothing to attack"
"""Why a method without updates has no snapshots."""


def make_client(settings: ClientSettings, model: PreTrainedModel, device: torch.device) -> Client:
    """A participant with the settings of a task."""
    import torch

    package = model_package()
    return Client(
        model,
        package.objective(settings.objective),
        package.roles(model),
        torch.Generator(device),
        local_steps=settings.local_steps,
        learning_rate=settings.learning_rate,
        budget=budget.budget if (budget := settings.training or settings.federation) else None,
    )


def take_steps(client: Client, batches: Sequence[Batch], momentum: float, seed: int) -> None:
    """Train the client's model in place, one step of gradient descent to a batch."""
    import torch

    seed_process(derive_seed("warm-up", seed))
    parameters = dict(client.model.named_parameters())
    speed = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for batch in batches:
        for name, value in client.gradient(batch).items():
            speed[name] = momentum * speed[name] + value
            parameters[name].data -= client.learning_rate * speed[name]


def check_sharing(defense: Defense, client: Client) -> None:
    """Raises `Unsupported` for a method whose clients send nothing at all."""
    names = (name for name, _ in client.model.named_parameters())
    if not any(defense.shares(name, client.roles) for name in names):
        raise Unsupported(NOTHING_SENT)


def one_update(defense: Defense, client: Client, batch: Batch, seed: int) -> Update:
    """What a client sends of one batch; the same tensors for the same state, batch and seed."""
    check_sharing(defense, client)
    seed_process(seed)
    fill(client.generator, derive_seed("generator", seed))
    update = defense.client_update(client, batch)
    check_update(update, client.model)
    return update


def check_update(update: Update, model: torch.nn.Module) -> None:
    """An update speaks of the model's own parameters, in their own shapes, in finite numbers."""
    if not isinstance(update, Update):
        raise InvalidUpdate(f"client_update returned {type(update).__name__} instead of an Update")
    if not update.tensors:
        raise InvalidUpdate("the update is empty")
    shapes = {
        name: (parameter.shape, parameter.dtype) for name, parameter in model.named_parameters()
    }
    for name, tensor in update.tensors.items():
        if shapes.get(name) != (tensor.shape, tensor.dtype):
            raise InvalidUpdate(
                f"the update of {name} does not have the parameter's shape and type"
            )
        if not bool(tensor.isfinite().all()):
            raise InvalidUpdate(f"the update of {name} holds NaN or infinite values")
