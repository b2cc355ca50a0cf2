"""LG-FedAvg: each client learns a representation of its own, below layers that all share."""

from __future__ import annotations

from benchmark.spec import Defense, Parameter, Roles
from submissions.blocks.freezing import is_output, is_word_embedding


class LGFedAvg(Defense):
    """The lower layers stay local; the paper shares the last ones.

    FedeVocab does not state where it cut, and reports more traffic for it than for itself, so it
    shared more than a head.
    """

    name = "lg_fedavg"
    summary = "Clients keep the lower layers to themselves and share those above."
    paper = "Liang et al., Think Locally, Act Globally: Federated Learning, 2020"
    parameters = {
        "local": Parameter(
            "body",
            "what stays local: all but the output layer, the word embedding, or all but both",
            choices=("body", "embedding", "encoder"),
        ),
    }

    def keeps(self, parameter: str, roles: Roles) -> bool:
        """The layers that the setting names."""
        embedding, output = is_word_embedding(parameter, roles), is_output(parameter, roles)
        local = {
            "body": not output,
            "embedding": embedding,
            "encoder": not embedding and not output,
        }
        return local[str(self.settings["local"])]

    def shares(self, parameter: str, roles: Roles) -> bool:
        """The others."""
        return not self.keeps(parameter, roles)
