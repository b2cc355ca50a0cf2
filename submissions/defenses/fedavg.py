"""FedAvg: clients train all parameters, and the server takes the mean of where they got to."""

from __future__ import annotations

from benchmark.spec import Defense


class FedAvg(Defense):
    """The plain client, under the name that it has in a federation."""

    name = "fedavg"
    summary = "Clients train and share every parameter; nothing is protected."
    paper = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017"
