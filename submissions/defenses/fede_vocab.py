"""FedeVocab: the embedding layer never leaves the client, so nobody else can read its vectors."""

from __future__ import annotations

import torch

from benchmark.spec import Batch, Client, Defense, Parameter, Role, Roles
from submissions.blocks.freezing import is_word_embedding

STARTED = "own_table"


class FedeVocab(Defense):
    """Algorithm 1 of the paper: a client first fits its embeddings to the body it has received.

    `tables=own` turns each client's word vectors by an orthogonal map that only the client knows,
    as if it had them from another pretraining. The paper takes other published tables for this.
    """

    name = "fede_vocab"
    summary = "Clients keep the embedding layer to themselves and adapt it to the shared body."
    paper = "Zhang et al., FedeVocab: private vocabularies in federated text classification, 2022"
    parameters = {
        "adapt": Parameter(True, "fit the embeddings alone before all parameters are trained"),
        "tables": Parameter("same", "where a client's word vectors start", choices=("same", "own")),
    }
    variants = {
        "fede_vocab_no_adapt": {"adapt": False},
        "fede_vocab_own_tables": {"tables": "own"},
    }

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Everything but the word vectors."""
        return not is_word_embedding(parameter, roles)

    def keeps(self, parameter: str, roles: Roles) -> bool:
        """The word vectors."""
        return is_word_embedding(parameter, roles)

    def adapt(self, client: Client, rows: Batch) -> Batch:
        """Adaptive updating, section 3.3: one epoch on the embeddings, the body frozen."""
        if self.settings["tables"] == "own" and STARTED not in client.state:
            _turn(client)
            client.state[STARTED] = torch.ones(1)
        if self.settings["adapt"]:
            names = [n for n, _ in client.model.named_parameters() if self.keeps(n, client.roles)]
            client.train(rows, names, 1)
        return rows


def _turn(client: Client) -> None:
    """An orthogonal map drawn by the client, on all of its word vectors."""
    table = client.model.get_parameter(client.roles.names[Role.WORD_EMBEDDING])
    drawn = torch.randn(
        table.shape[1], table.shape[1], generator=client.generator, device=client.generator.device
    )
    turn, triangle = torch.linalg.qr(drawn.double())
    turn = turn * triangle.diagonal().sign()
    with torch.no_grad():
        table.copy_((table.double() @ turn.to(table.device)).to(table.dtype))
