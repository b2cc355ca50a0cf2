"""FedRecon: the vectors of private tokens stay local and are rebuilt before each round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from benchmark.spec import Batch, Client, Defense, Parameter, Role, Update
from submissions.blocks.noise import normal_like


class FedRecon(Defense):
    """A client draws vectors for its private tokens, fits them to one part of its rows while all
    else is frozen, and then trains the shared parameters on the rest while they are.

    Nothing is kept: as in the paper, local vectors are reconstructed whenever they are needed. The
    server has vectors for these tokens too, those of the public model, which no client uses.
    """

    name = "fed_recon"
    summary = "Vectors of private tokens stay local, reconstructed before each round."
    paper = "Singhal et al., Federated Reconstruction: Partially Local Federated Learning, 2021"
    parameters = {
        "support": Parameter(0.5, "share of a client's rows that reconstruct", 0.0, 1.0),
        "epochs": Parameter(1, "passes over them (a guess)", 1),
    }

    def adapt(self, client: Client, rows: Batch) -> Batch:
        """Reconstruct the private vectors; the rows that are left train the shared parameters."""
        name = client.roles.names[Role.WORD_EMBEDDING]
        table = client.model.get_parameter(name)
        private = _private(client)
        with torch.no_grad():
            table[private] = normal_like(table[private], client.generator) * table.std()
        count = max(1, round(len(rows.labels) * float(self.settings["support"])))
        self._reconstructing = True
        client.train(_rows(rows, slice(0, count)), [name], int(self.settings["epochs"]))
        self._reconstructing = False
        return _rows(rows, slice(count % len(rows.labels), None))

    def local_update(self, client: Client, batch: Batch, names: Sequence[str]) -> Update:
        """The gradient of private rows while they are reconstructed, else of all others."""
        update, name = client.update(batch, names), client.roles.names[Role.WORD_EMBEDDING]
        if name not in update.tensors:
            return update
        gradient = update.tensors[name]
        private = torch.zeros(len(gradient), 1, dtype=torch.bool, device=gradient.device)
        private[_private(client)] = True
        kept = private if self._reconstructing else ~private
        return replace(update, tensors={**update.tensors, name: gradient.where(kept, 0.0)})

    _reconstructing = False


def _private(client: Client) -> Tensor:
    ids = sorted(client.private_ids)
    return torch.tensor(ids, dtype=torch.long, device=client.generator.device)


def _rows(rows: Batch, which: slice) -> Batch:
    return Batch(rows.input_ids[which], rows.attention_mask[which], rows.labels[which])
