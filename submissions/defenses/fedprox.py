"""FedProx: FedAvg whose clients are held near the parameters that they received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmark.spec import Batch, Client, Defense, Parameter, Update


class FedProx(Defense):
    """Adds μ/2 ‖w - w received‖² to the local loss; the first step has the plain gradient."""

    name = "fedprox"
    summary = "FedAvg with a penalty on how far a client moves from what it received."
    paper = "Li et al., Federated Optimization in Heterogeneous Networks, 2020"
    parameters = {
        "mu": Parameter(0.01, "weight of the penalty", 0.0, grid=(0.001, 0.01, 0.1, 1.0)),
    }

    def local_update(self, client: Client, batch: Batch, names: Sequence[str]) -> Update:
        """The gradient of the loss with its penalty."""
        update, weight = client.update(batch, names), float(self.settings["mu"])
        parameters = dict(client.model.named_parameters())
        tensors = {
            name: gradient + weight * (parameters[name].detach() - client.received[name])
            if name in client.received
            else gradient
            for name, gradient in update.tensors.items()
        }
        return replace(update, tensors=tensors)
