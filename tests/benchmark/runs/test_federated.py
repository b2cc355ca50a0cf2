"""Federated trainings: rounds through the engine, clients that fail, interruptions, traffic."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.events import Progress
from benchmark.execution.jobs import Job
from benchmark.metrics.utility import global_accuracy, local_accuracy
from benchmark.paths import ROOT
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task
from benchmark.results.schema import Status, UtilityRecord
from benchmark.runs.federated_rounds import aggregate, drops_out, in_groups, sampled_clients
from benchmark.runs.federated_store import SimulationStore
from tests.benchmark.runs.federated_setup import (
    SMALL,
    comparable,
    run_trials,
    small_task,
    small_trial,
)

Catalogs = tuple[Catalog, Catalog]


# ------------------------------------------------------------------------------------- the server


def test_the_server_weighs_updates_by_their_rows_and_leaves_the_rest_alone() -> None:
    weights = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([5.0], np.float32)}
    updates = [(1, {"a": np.array([4.0, 0.0], np.float32)}),
               (3, {"a": np.array([0.0, 4.0], np.float32)})]  # fmt: skip
    moved = aggregate(weights, updates)
    assert moved["a"].tolist() == [2.0, 5.0]
    assert moved["a"].dtype == np.float32
    assert moved["b"] is weights["b"]
    assert aggregate(weights, []) == weights


def test_who_takes_part_depends_on_seed_and_round_alone() -> None:
    rounds = [sampled_clients(SMALL, 3, number) for number in range(20)]
    assert rounds == [sampled_clients(SMALL, 3, number) for number in range(20)]
    assert len({tuple(clients) for clients in rounds}) > 5
    assert {client for clients in rounds for client in clients} == set(range(SMALL.clients))
    half = replace(SMALL, dropout_rate=0.5)
    dropped = [drops_out(half, 3, number, client) for number in range(50) for client in range(6)]
    assert 100 < sum(dropped) < 200
    assert not any(drops_out(SMALL, 3, number, 0) for number in range(50))


def test_groups_hold_everyone_once_and_in_order() -> None:
    assert in_groups([3, 5, 8, 9, 11], 2) == [[3, 5, 8], [9, 11]]
    assert in_groups([3, 5], 8) == [[3], [5]]


def test_accuracies_by_hand() -> None:
    assert global_accuracy([0.25, 1.0], 10) == pytest.approx(0.5)
    assert global_accuracy([0.0, 1.0], 50) == pytest.approx(0.1)  # half a hit of fifty
    assert local_accuracy([0.5, None, 1.0]) == 0.75


# ------------------------------------------------------------------------------- through the engine


@pytest.fixture(scope="module")
def plain(
    engine: LocalEngine, catalogs: Catalogs, tmp_path_factory: pytest.TempPathFactory
) -> UtilityRecord:
    """FedeVocab, whose clients keep something, trained without interruption by one worker."""
    results = tmp_path_factory.mktemp("plain")
    return run_trials(engine, [small_trial(small_task(), catalogs[1], "fede_vocab", results)])[0]


def test_a_training_has_its_curve_its_traffic_and_every_client(plain: UtilityRecord) -> None:
    assert plain.status is Status.OK, plain.reason
    assert plain.metrics.keys() == {"accuracy_global", "accuracy_local"}
    found = plain.federated
    assert found is not None
    assert [r.round for r in found.rounds] == [1, 2]
    assert all(r.answered == 3 and r.accuracy is not None for r in found.rounds)
    assert len(found.global_accuracies) == len(found.local_accuracies) == SMALL.clients
    rows = [len(batch.labels) for batch in load_task(small_task()).federated_data(7).clients]
    assert [sum(counts) for counts in found.label_counts] == rows
    shapes = load_task(small_task()).form.shapes
    shared = sum(4 * int(np.prod(s)) for n, s in shapes.items() if "embed_tokens" not in n)
    assert found.bytes_down == shared
    assert plain.bytes_up is not None
    assert 0 < plain.bytes_up <= shared


def test_two_workers_and_two_interruptions_change_nothing(
    plain: UtilityRecord, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    """Cut off behind each round by an error in the harness itself, then run to the end."""
    trial = small_trial(small_task(), catalogs[1], "fede_vocab", tmp_path)
    store = SimulationStore(load_task(trial.task), trial.seed, trial.fingerprint)
    assert not store.folder.exists()  # the first run has tidied up

    def cut(job: Job, event: Progress) -> None:
        raise RuntimeError(f"cut after round {event.step}")

    for completed in (1, 2):
        with LocalEngine(["cpu", "cpu"], threads=1) as two:
            two.progress = cut
            with pytest.raises(RuntimeError, match=f"round {completed}"):
                run_trials(two, [trial])
        assert store.read().round == completed
    resumed = run_trials(engine, [trial])[0]
    assert comparable(resumed) == comparable(plain)


def test_a_training_that_was_killed_twice_ends_with_the_same_record(
    plain: UtilityRecord, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    """In its second round, and while clients are tested; on two workers, and then on one."""
    trial = small_trial(small_task(), catalogs[1], "fede_vocab", tmp_path)
    store = SimulationStore(load_task(trial.task), trial.seed, trial.fingerprint)
    checkpoint = store.path("checkpoint.json")
    for completed in (1, 2):
        command = [sys.executable, "-m", "tests.benchmark.runs.federated_killed", str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT) as running:
            while running.poll() is None:
                if checkpoint.exists() and store.read().round == completed:
                    running.kill()
                    break
                time.sleep(0.02)
        assert running.returncode == -signal.SIGKILL
        assert store.read().round == completed
    assert comparable(run_trials(engine, [trial])[0]) == comparable(plain)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "this client is unsteady"),
        ("nan", "NaN"),
        ("shape", "shape"),
        ("exit", "the defense failed"),
        ("keep", "NaN"),
    ],
)
def test_clients_that_fail_are_left_out_and_counted(
    how: str, reason: str, engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    task = small_task(sampled=6, rounds=1, checks=1)
    trial = small_trial(task, catalogs[1], f"unsteady[how={how}]", tmp_path)
    record = run_trials(engine, [trial])[0]
    even = [len(b.labels) % 2 == 0 for b in load_task(task).federated_data(7).clients]
    assert 0 < sum(even) < 6
    result = record.federated
    assert record.status is Status.OK, record.reason
    assert result is not None
    assert result.rounds[0].answered == 6 - sum(even)
    assert result.rounds[0].failed == sum(even)
    assert all(reason in words for words in result.failures)
    # Whoever cannot train cannot do it before the test either, and is tested as it is.
    times = 2 if how in ("raise", "exit") else 1
    assert sum(result.failures.values()) == times * sum(even)
    assert len(result.global_accuracies) == 6


def test_a_client_that_hangs_is_left_out_in_time(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    task = small_task(sampled=2, rounds=1, checks=1, clients=6)
    trial = small_trial(task, catalogs[1], "unsteady[how=sleep,all=true]", tmp_path)
    record = run_trials(engine, [trial], seconds=1.0)[0]
    assert record.status is Status.TIMEOUT
    assert "all clients of round 1 failed" in record.reason
    assert "stopped after 1 s" in record.reason


def test_all_clients_failing_is_a_failed_record(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    trial = small_trial(small_task(), catalogs[1], "unsteady[all=true]", tmp_path)
    record = run_trials(engine, [trial])[0]
    assert record.status is Status.ERROR
    assert record.reason.startswith("all clients of round 1 failed")
    assert "this client is unsteady" in record.reason
    assert record.metrics == {}


def test_dropouts_are_counted_and_a_round_without_anyone_moves_nothing(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    task = small_task(dropout_rate=1.0, checks=1)
    record = run_trials(engine, [small_trial(task, catalogs[1], "fedavg", tmp_path)])[0]
    assert record.status is Status.OK, record.reason
    assert record.federated is not None
    assert [(r.dropped, r.answered) for r in record.federated.rounds] == [(3, 0), (3, 0)]
    assert record.bytes_up == 0.0


def test_alone_there_are_no_rounds_and_nothing_is_sent(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    trial = small_trial(small_task(), catalogs[1], "local_only[epochs=1]", tmp_path)
    record = run_trials(engine, [trial])[0]
    assert record.status is Status.OK, record.reason
    assert (record.rounds, record.bytes_up) == (0, 0.0)
    assert record.federated is not None
    assert len(set(record.federated.global_accuracies)) > 1


def test_gradient_defenses_combine_with_fedavg(
    engine: LocalEngine, catalogs: Catalogs, tmp_path: Path
) -> None:
    names = ("fedavg", "fedavg+prune", "fedavg+dpsgd", "fedavg+freeze_embeddings")
    task = small_task(rounds=1, checks=1)
    trials = [small_trial(task, catalogs[1], name, tmp_path) for name in names]
    found = {r.defense: r for r in run_trials(engine, trials)}
    assert all(r.status is Status.OK for r in found.values()), found
    up = {name: r.bytes_up or 0.0 for name, r in found.items()}
    assert up["fedavg+prune"] < 0.1 * up["fedavg"]  # 1 % of the entries, with their places
    assert up["fedavg+freeze_embeddings"] < up["fedavg"]
    assert (found["fedavg+dpsgd"].epsilon or 0.0) > 0
