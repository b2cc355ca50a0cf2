"""What an attacker of a federated client has: the server's model, and published vectors if told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins import registry
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.plugins.selection import choose
from benchmark.results.schema import Record, Status
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Selection, plan_cells
from benchmark.runs.server_view import parameters, public_table, server_view
from benchmark.snapshots.build import SnapshotSet
from tests.benchmark.runs.federated_setup import small_task
from tests.harness import Quiet

Catalogs = tuple[Catalog, Catalog]
TABLE = "bilstm.embed_tokens.weight"


@pytest.fixture
def small_federations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The suite with the small federation in place of the real ones."""
    suites, broken = registry.find_suites()
    names = ("mini/agnews-fl", "mini/agnews-fl-b1", "mini/agnews-fl-b1-last")
    tasks = tuple(
        replace(small_task(t.name), observed_round=t.observed_round) if t.name in names else t
        for t in suites["mini"].tasks
    )
    smaller = {**suites, "mini": replace(suites["mini"], tasks=tasks)}
    monkeypatch.setattr(registry, "find_suites", lambda: (smaller, broken))
    registry.trained_as.cache_clear()
    yield
    registry.trained_as.cache_clear()


def run(
    engine: LocalEngine, catalogs: Catalogs, results: Path, task: str, attack: str, defense: str
) -> list[Record]:
    cells = plan_cells(Selection("mini", task, attack, defense), *catalogs, results)
    return Run(engine, Quiet(), 60.0, 8000.0, "cpu").run(cells)


def test_what_clients_keep_the_server_does_not_have(catalogs: Catalogs) -> None:
    side = load_task(small_task())
    snapshots = SnapshotSet(side, choose(catalogs[1], "defense", "fede_vocab")[0], 7)
    assert server_view(snapshots, []) == side.model_directory
    folder = server_view(snapshots, [TABLE])
    model, _ = model_package().open_model(folder, "classification", "float32", torch.device("cpu"))
    public = parameters(side)
    for name, value in model.named_parameters():
        assert torch.equal(value, public[name]) == (name != TABLE)
    drawn = model.get_parameter(TABLE).detach()
    assert float(drawn.std()) == pytest.approx(float(public[TABLE].std()), rel=0.05)
    alike = torch.nn.functional.cosine_similarity(drawn, public[TABLE], dim=1)
    assert float(alike.abs().mean()) < 0.2
    assert public_table(side).exists()


@pytest.mark.usefixtures("small_federations")
def test_who_has_the_table_reads_fedavg_and_who_has_a_published_one_reads_fede_vocab(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    """The claim that nobody can decode holds for the bag of words, not for the adaptive attack."""
    found: dict[tuple[str, str], Record] = {}
    attacks, defenses = "bag_of_words,table_alignment", "fedavg,fede_vocab,fed_recon"
    for record in run(engine, catalogs, tmp_path, "agnews-fl-b1", attacks, defenses):
        assert record.status is Status.OK, record.reason
        found[record.attack, record.defense] = record
    task = all_tasks()["mini/agnews-fl-b1"]
    truth = load_task(task).private_batch(0, 0).truth.token_types

    def share(attack: str, defense: str) -> float:
        types = found[attack, defense].snapshots[0].token_types or []
        return len(truth & set(types)) / len(truth)

    assert share("bag_of_words", "fedavg") == 1.0
    assert share("bag_of_words", "fede_vocab") == 0.0
    assert 0.5 < share("bag_of_words", "fed_recon") < 1.0
    assert share("table_alignment", "fede_vocab") > 0.8
    assert found["table_alignment", "fede_vocab"].snapshots[0].sentences


@pytest.mark.usefixtures("small_federations")
def test_a_later_round_is_trained_up_to_and_then_attacked(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    task, attack = "agnews-fl-b1-last", "bag_of_words"
    for defense in ("fedavg", "fede_vocab"):
        record = run(engine, catalogs, tmp_path, task, attack, defense)[0]
        assert record.status is Status.OK, record.reason
    first = run(engine, catalogs, tmp_path, "agnews-fl-b1", attack, "fedavg")[0]
    assert first.snapshots[0].digest != record.snapshots[0].digest
    alone = run(engine, catalogs, tmp_path, task, attack, "local_only")[0]
    assert alone.status is Status.UNSUPPORTED
