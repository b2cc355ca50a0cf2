"""The clients of a federated task inside their worker: a round, a model of their own, a test.

Clients of one job follow one another on one copy of the model. Each begins with what the server
sent, what it has kept and a seed of its own, so nothing depends on which job a client is in.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.execution.client import NOTHING_SENT, check_update, make_client, one_update
from benchmark.execution.events import ClientFailed, ClientTested, ClientTrained, Personalized
from benchmark.execution.failures import reason_of, status_of
from benchmark.execution.jobs import (
    Assignment,
    ClientFile,
    ClientTestJob,
    PersonalizeJob,
    PrivateBatchFile,
    RoundJob,
    UpdateJob,
)
from benchmark.execution.local_training import LocalTrainer
from benchmark.execution.observing import Emit
from benchmark.execution.randomness import fill, seed_process
from benchmark.execution.seeds import derive_seed
from benchmark.execution.timing import Stopwatch, device_peak_mb, process_peak_mb
from benchmark.execution.trainer import classes, parts, read_batch, take
from benchmark.plugins import loading
from benchmark.plugins.composition import overrides
from benchmark.plugins.registry import model_package
from benchmark.spec import Batch, Client, Unsupported, Update

if TYPE_CHECKING:
    import torch
    from torch import Tensor

STATE = "state/"
"""What a method keeps beside parameters is stored under its own name behind this."""


class Participants:
    """The model, the defense, and the public weights that every client begins with."""

    def __init__(
        self,
        work: RoundJob | PersonalizeJob | UpdateJob,
        assignment: Assignment,
        device: torch.device,
    ) -> None:
        self.settings, self.inbox, self.device = work.client, assignment.inbox, device
        assert work.client.federation is not None
        self.federation = work.client.federation
        seed_process(derive_seed("construction", work.seed))
        self.defense = loading.make_defense(work.defense)
        self.model, tokenizer = model_package().open_model(
            self.inbox / "model", self.settings.objective, self.settings.precision, device
        )
        self.parameters = dict(self.model.named_parameters())
        if work.received:
            overwrite(self.parameters, read_tensors(self.inbox / work.received, device))
        self.received = {n: p.detach().clone() for n, p in self.parameters.items()}
        self.roles = model_package().roles(self.model)
        self.shared = [n for n in self.parameters if self.defense.shares(n, self.roles)]
        self.kept = [
            name
            for name in self.parameters
            if name not in self.shared and self.defense.keeps(name, self.roles)
        ]
        self.private_ids = private_ids(tokenizer.get_vocab())

    def enter(self, item: ClientFile, round_number: int) -> tuple[Client, LocalTrainer]:
        """A client with the parameters of this round and what it has kept."""
        overwrite(self.parameters, self.received)
        client = make_client(self.settings, self.model, self.device)
        if item.state:
            stored = read_tensors(self.inbox / item.state, self.device)
            overwrite(self.parameters, {n: t for n, t in stored.items() if n in self.kept})
            own = {n.removeprefix(STATE): t for n, t in stored.items() if n.startswith(STATE)}
            client.state.update(own)
        client.received = {name: self.received[name] for name in self.shared}
        client.private_ids = self.private_ids
        mode = self.settings.mode
        trainer = LocalTrainer(self.defense, client, self.federation, mode, round_number, item.seed)
        client.train = trainer
        seed_process(item.seed)
        fill(client.generator, derive_seed("generator", item.seed))
        return client, trainer

    def one_round(self, client: Client, rows: Batch) -> Update | None:
        """Adapt, train, return by how much shared parameters moved; None: nothing is shared.

        What adapting changed of shared parameters is not part of it.
        """
        if not self.shared:
            return None
        before = self.train_locally(client, rows)
        moved = {n: self.parameters[n].detach() - value for n, value in before.items()}
        update = Update(moved, "difference")
        if "client_update" not in overrides(type(self.defense)):
            update = self.defense.transform(update, client.generator)
        check_update(update, self.model)
        return update

    def train_locally(self, client: Client, rows: Batch) -> dict[str, Tensor]:
        """A client's part of a round; returns the shared parameters as adapting left them."""
        rows = self.defense.adapt(client, rows)
        before = {name: self.parameters[name].detach().clone() for name in self.shared}
        client.train(rows, [*self.shared, *self.kept], self.federation.epochs)
        return before

    def state_of(self, client: Client) -> dict[str, Tensor]:
        """What a client keeps for its next round."""
        kept = {name: self.parameters[name].detach() for name in self.kept}
        return kept | {f"{STATE}{name}": tensor for name, tensor in client.state.items()}


# ------------------------------------------------------------------------------------------- jobs


def observed_update(everyone: Participants, item: PrivateBatchFile) -> tuple[Update, Client]:
    """What a client sends of one batch in the observed round, having adapted to its own rows."""
    if not everyone.shared:
        raise Unsupported(NOTHING_SENT)
    seed = derive_seed("adapt", item.seed)
    own = ClientFile(index=item.index, seed=seed, rows=item.rows, state=item.state)
    client, _ = everyone.enter(own, 0)
    if item.rows:
        everyone.defense.adapt(client, read_batch(everyone.inbox / item.rows, everyone.device))
    everyone.model.train(everyone.settings.mode == "train")
    batch = read_batch(everyone.inbox / item.file, everyone.device)
    return one_update(everyone.defense, client, batch, item.seed), client


def train_round(work: RoundJob, assignment: Assignment, device: torch.device, emit: Emit) -> None:
    """Each client's update and state as files; a client that fails is told of and left out."""
    everyone = Participants(work, assignment, device)
    for item in work.clients:
        try:
            rows = read_batch(assignment.inbox / item.rows, device)
            with Stopwatch(device) as watch:
                client, trainer = everyone.enter(item, work.round)
                update = everyone.one_round(client, rows)
            state = everyone.state_of(client) if update else {}
            if update:
                write_tensors(update.tensors, assignment.outbox / update_file(item.index))
            if state:
                write_tensors(state, assignment.outbox / state_file(item.index))
        except Exception as error:
            traceback.print_exc()
            emit(ClientFailed(index=item.index, status=status_of(error), reason=reason_of(error)))
            continue
        emit(
            ClientTrained(
                index=item.index,
                seconds=watch.seconds,
                epsilon=trainer.epsilon,
                peak_mb=process_peak_mb(),
                device_peak_mb=device_peak_mb(device),
                shares=update is not None,
                keeps=bool(state),
            )
        )


def personalize(
    work: PersonalizeJob, assignment: Assignment, device: torch.device, emit: Emit
) -> None:
    """Each client's model after one more local training, where it differs from the server's."""
    import torch

    everyone = Participants(work, assignment, device)
    for item in work.clients:
        try:
            client, _ = everyone.enter(item, work.round)
            everyone.train_locally(client, read_batch(assignment.inbox / item.rows, device))
            differs = {
                name: value.detach()
                for name, value in everyone.parameters.items()
                if not torch.equal(value, everyone.received[name])
            }
            if differs:
                write_tensors(differs, assignment.outbox / state_file(item.index))
        except Exception as error:
            traceback.print_exc()
            emit(ClientFailed(index=item.index, status=status_of(error), reason=reason_of(error)))
            continue
        emit(Personalized(index=item.index, differs=bool(differs)))


def test(work: ClientTestJob, assignment: Assignment, device: torch.device, emit: Emit) -> None:
    """What the model of each client answers to its rows."""
    import torch

    settings = work.client
    model, _ = model_package().open_model(
        assignment.inbox / "model", settings.objective, settings.precision, device
    )
    parameters = dict(model.named_parameters())
    overwrite(parameters, read_tensors(assignment.inbox / work.received, device))
    received = {name: value.detach().clone() for name, value in parameters.items()}
    rows = read_batch(assignment.inbox / work.rows, device)
    for item in work.clients:
        overwrite(parameters, received)
        if item.file:
            overwrite(parameters, read_tensors(assignment.inbox / item.file, device))
        own = take(rows, torch.tensor(item.rows, device=device)) if item.rows else rows
        predicted = [label for part in parts(own) for label in classes(model, part)]
        emit(ClientTested(index=item.index, predicted=predicted))


# ------------------------------------------------------------------------------------------ files


def update_file(index: int) -> str:
    """Name of the file in which a client's update leaves its job."""
    return f"update-{index:05d}.safetensors"


def state_file(index: int) -> str:
    """Name of the file in which a client's state, or its own model, leaves its job."""
    return f"state-{index:05d}.safetensors"


def read_tensors(path: Path, device: torch.device) -> dict[str, Tensor]:
    """Tensors by name."""
    from safetensors.torch import load_file

    return {name: tensor.to(device) for name, tensor in load_file(path).items()}


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Tensors by name, on the CPU."""
    from safetensors.torch import save_file

    save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, path)


def overwrite(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Put values into the parameters of a model; names that it does not have are left out."""
    import torch

    with torch.no_grad():
        for name, value in values.items():
            if name in parameters:
                parameters[name].copy_(value)


def private_ids(vocabulary: Mapping[str, int]) -> frozenset[int]:
    """Tokens with a digit."""
    return frozenset(i for token, i in vocabulary.items() if any(map(str.isdigit, token)))
