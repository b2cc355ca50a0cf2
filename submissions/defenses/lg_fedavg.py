"""LG-FedAvg: each client learns a representation of its own; the rest of the model is shared."""

from __future__ import annotations

from benchmark.spec import Defense, Parameter, Roles
from submissions.blocks.freezing import is_output, is_word_embedding


class LGFedAvg(Defense):
    """Part of the model stays local, without a step that fits it to what the others have done.

    FedeVocab does not print where it cut. It reports that LG-FedAvg sends more than FedeVocab,
    which is only so where the word vectors are shared, and that its models know little beyond
    their own client's labels: the encoder is local. The method's own paper shares the last layers
    alone, `local=body`.
    """

    name = "lg_fedavg"
    summary = "Clients keep the encoder to themselves and share word vectors and output layer."
    paper = "Liang et al., Think Locally, Act Globally: Federated Learning, 2020"
    parameters = {
        "local": Parameter(
            "encoder",
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
