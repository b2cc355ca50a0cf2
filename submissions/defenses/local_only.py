"""No federation: every client trains alone."""

from __future__ import annotations

from benchmark.spec import Batch, Client, Defense, Parameter, Roles


class LocalOnly(Defense):
    """Nothing is sent, so there are no rounds; a client trains before it is tested."""

    name = "local_only"
    summary = "Every client trains alone on its own data and sends nothing."
    paper = "Zhang et al., FedeVocab: private vocabularies in federated text classification, 2022"
    parameters = {
        "epochs": Parameter(
            3,
            "passes over the client's rows: a federated client makes two on average where 20 "
            "rounds draw a tenth of the clients each; the paper has ten to its clients' ten",
            1,
        )
    }

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Nothing."""
        return False

    def keeps(self, parameter: str, roles: Roles) -> bool:
        """Everything."""
        return True

    def adapt(self, client: Client, rows: Batch) -> Batch:
        """All of the training there is; no rows are left for a round."""
        names = [name for name, _ in client.model.named_parameters()]
        client.train(rows, names, int(self.settings["epochs"]))
        return Batch(rows.input_ids[:0], rows.attention_mask[:0], rows.labels[:0])
