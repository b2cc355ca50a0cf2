"""The federated methods, client by client: what they send, keep, and do before a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmark.execution.federated_client import Participants
from benchmark.execution.jobs import Assignment, ClientFile, ClientSettings, RoundJob
from benchmark.paths import ROOT
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.registry import load_task
from benchmark.spec import Batch, Client, Update
from tests.benchmark.runs.federated_setup import small_task

TABLE = "bilstm.embed_tokens.weight"
ITEM = ClientFile(index=0, seed=11, rows="")
Open = Callable[..., Participants]


@pytest.fixture
def open_method(tmp_path: Path, one_thread: None) -> Open:
    """A method on the small federation, with everything loaded."""
    task = small_task()
    (tmp_path / "model").symlink_to(load_task(task).model_directory)

    def make(name: str, **parameters: Any) -> Participants:
        path = ROOT / f"submissions/defenses/{name}.py"
        written = tmp_path / f"{name}.py"
        reference = str(written if written.exists() else path)
        call = SubmissionCall(reference=reference, parameters=parameters)
        work = RoundJob(
            client=ClientSettings.of(task), defense=(call,), seed=1, round=0, received="",
            clients=(),
        )  # fmt: skip
        given = Assignment(
            work=work, inbox=tmp_path, outbox=tmp_path, device="cpu", threads=1, time_limit=60.0,
            memory_limit_mb=8000.0,
        )  # fmt: skip
        return Participants(work, given, torch.device("cpu"))

    return make


def rows() -> Batch:
    return load_task(small_task()).federated_data(7).clients[0]


def one_round(method: Participants, item: ClientFile = ITEM) -> tuple[Client, Update]:
    client, _ = method.enter(item, 0)
    update = method.one_round(client, rows())
    assert update is not None
    return client, update


def values(method: Participants) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.parameters.items()}


def test_fedavg_sends_by_how_much_everything_moved(open_method: Open) -> None:
    method = open_method("fedavg")
    client, update = one_round(method)
    assert update.tensors.keys() == method.parameters.keys()
    for name, moved in update.tensors.items():
        assert torch.equal(moved, values(method)[name] - method.received[name])
    used = rows().input_ids.unique()
    assert set(update.tensors[TABLE].abs().sum(dim=1).nonzero().flatten().tolist()) <= {
        int(token) for token in used
    }
    assert method.state_of(client) == {}


def test_the_same_seed_gives_the_same_update_whoever_came_before(open_method: Open) -> None:
    method = open_method("fed_recon")
    _, first = one_round(method)
    one_round(method, ClientFile(index=1, seed=12, rows=""))
    _, again = one_round(method)
    _, other = one_round(method, ClientFile(index=1, seed=12, rows=""))
    assert all(torch.equal(first.tensors[n], again.tensors[n]) for n in first.tensors)
    assert not torch.equal(first.tensors[TABLE], other.tensors[TABLE])


def test_fedprox_stays_nearer_to_what_it_received(open_method: Open) -> None:
    def length(update: Update) -> float:
        return float(sum(t.square().sum() for t in update.tensors.values()))

    plain = length(one_round(open_method("fedavg"))[1])
    same = length(one_round(open_method("fedprox", mu=0.0))[1])
    near = length(one_round(open_method("fedprox", mu=100.0))[1])
    assert same == pytest.approx(plain)
    assert near < 0.9 * plain


def test_lg_fedavg_divides_the_model_where_it_is_told(open_method: Open) -> None:
    for local, kept in (("body", 7), ("embedding", 1), ("encoder", 6)):
        method = open_method("lg_fedavg", local=local)
        assert len(method.kept) == kept
        assert set(method.kept).isdisjoint(method.shared)
        assert len(method.kept) + len(method.shared) == len(method.parameters)
        assert "classifier.weight" in method.shared


def test_fed_recon_sends_no_private_row_and_uses_rows_of_its_own(open_method: Open) -> None:
    method = open_method("fed_recon")
    _, update = one_round(method)
    private = sorted(method.private_ids)
    assert len(private) > 50
    assert not update.tensors[TABLE][private].any()
    assert update.tensors[TABLE].any()
    own, public = values(method)[TABLE][private], method.received[TABLE][private]
    cosine = torch.nn.functional.cosine_similarity(own, public, dim=1)
    assert float(cosine.abs().mean()) < 0.2


def test_fede_vocab_fits_the_table_while_the_body_is_frozen(open_method: Open) -> None:
    method = open_method("fede_vocab")
    client, _ = method.enter(ITEM, 0)
    method.defense.adapt(client, rows())
    changed = {
        name for name, value in values(method).items()
        if not torch.equal(value, method.received[name])
    }  # fmt: skip
    assert changed == {TABLE}
    client, update = one_round(method)
    assert TABLE not in update.tensors
    assert method.state_of(client).keys() == {TABLE}
    plain = open_method("fede_vocab", adapt=False)
    client, _ = plain.enter(ITEM, 0)
    plain.defense.adapt(client, rows())
    assert torch.equal(values(plain)[TABLE], plain.received[TABLE])


@pytest.mark.parametrize(
    ("name", "own"),
    [("fedavg", set()), ("fede_vocab", {TABLE}), ("fed_recon", {TABLE}), ("local_only", None)],
)
def test_a_client_is_tested_with_what_is_its_own_and_else_with_the_servers_parameters(
    name: str, own: set[str] | None, open_method: Open
) -> None:
    method = open_method(name)
    method.federation = replace(method.federation, epochs=0)
    client, _ = method.enter(ITEM, 0)
    method.train_locally(client, rows())
    after = values(method)
    changed = {n for n in after if not torch.equal(after[n], method.received[n])}
    assert changed == (after.keys() if own is None else own)
    if name == "fed_recon":
        rebuilt = (after[TABLE] != method.received[TABLE]).any(dim=1).nonzero().flatten()
        assert rebuilt.tolist() == sorted(method.private_ids)


def test_own_tables_are_turned_once_and_keep_their_geometry(open_method: Open) -> None:
    method = open_method("fede_vocab", tables="own", adapt=False)
    client, _ = method.enter(ITEM, 0)
    method.defense.adapt(client, rows())
    turned = values(method)[TABLE]
    before = method.received[TABLE]
    assert not torch.allclose(turned, before, atol=0.1)
    assert torch.allclose(turned @ turned.T, before @ before.T, atol=1e-3)
    method.defense.adapt(client, rows())
    assert torch.equal(values(method)[TABLE], turned)


def test_alone_nothing_is_shared_and_all_training_is_adapting(open_method: Open) -> None:
    method = open_method("local_only", epochs=2)
    client, trainer = method.enter(ITEM, 0)
    assert method.one_round(client, rows()) is None
    method.train_locally(client, rows())
    assert not torch.equal(values(method)[TABLE], method.received[TABLE])
    assert len(method.defense.adapt(client, rows()).labels) == 0
    assert trainer.calls > 0


def test_the_seventh_method_of_the_documentation_works_as_it_stands_there(
    open_method: Open, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "federated.md").read_text("utf-8")
    code = page.split("## A seventh method in one file")[1].split("```python\n")[1].split("```")[0]
    (tmp_path / "local_head.py").write_text(code, "utf-8")
    method = open_method("local_head")
    head = {"classifier.weight", "classifier.bias"}
    assert set(method.kept) == head
    client, _ = method.enter(ITEM, 0)
    method.defense.adapt(client, rows())
    after = values(method)
    assert {n for n in after if not torch.equal(after[n], method.received[n])} == head
    client, update = one_round(method)
    assert update.tensors.keys() == method.parameters.keys() - head
    assert method.state_of(client).keys() == head
