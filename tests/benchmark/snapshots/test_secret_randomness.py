"""Noise that nobody can subtract, and that everybody who holds the corpus can repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.jobs import Job
from benchmark.execution.seeds import attack_seed, client_seed, derive_seed, training_seed
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.plugins.selection import choose
from benchmark.results.schema import Status
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Selection, plan_cells
from benchmark.snapshots import verify
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.salt import salt, salt_path
from benchmark.snapshots.store import batch_digest
from tests.benchmark.odd_submissions.attacks import subtract
from tests.harness import Quiet, RunCells

Catalogs = tuple[Catalog, Catalog]


def snapshot_set(catalogs: Catalogs, task: str, defense: str, seed: int = 0) -> SnapshotSet:
    (chosen,) = choose(catalogs[1], "defense", defense)
    return SnapshotSet(load_task(all_tasks()[task]), chosen, seed)


def timeless(manifest: Path) -> bytes:
    """A stored manifest but for how long the client took, and the checksum over that."""
    return json.dumps(json.loads(manifest.read_text()) | {"seconds": 0, "checksum": ""}).encode()


# -------------------------------------------------------------------------------------- subtracting


def test_no_seed_that_an_attack_can_compute_takes_the_noise_off(run_cells: RunCells) -> None:
    """Not even with the right guess of the private batch: its noise does not confirm it."""
    side = load_task(all_tasks()["mini/cola"])
    told = f"subtract[batch={batch_digest(side.private_batch(0, 0).batch)}]"
    record = run_cells(told, defense="gaussian_noise", time_limit=300)[0]
    assert record.status is Status.OK, record.reason
    tried = int(record.snapshots[0].note.removesuffix(" tried"))
    assert tried > 4 * 100_000
    assert record.snapshots[0].token_types == []


def test_with_the_salt_and_the_batch_the_noise_comes_off(run_cells: RunCells) -> None:
    """The same attack is right once it is told the secrets: the search above can succeed."""
    side = load_task(all_tasks()["mini/cola"])
    private = side.private_batch(0, 0)
    told = f"subtract[salt={salt(side)},batch={batch_digest(private.batch)}]"
    record = run_cells(told, defense="gaussian_noise", time_limit=300)[0]
    assert record.status is Status.OK, record.reason
    found = set(record.snapshots[0].token_types or ())
    assert found - side.special_ids == private.truth.token_types


def test_noise_from_public_names_alone_comes_off() -> None:
    """Seeds as they were derived before there was a salt are found, so the search is a real one."""
    gradient = torch.zeros(500, 8)
    gradient[[7, 11]] = 0.3
    noise = subtract.old_noise(subtract.old_seed("mini/cola", "gaussian_noise", 9, 5), (500, 8))
    attack = subtract.Subtract()
    attack.gradient, attack.tried = gradient + 0.01 * noise, 0
    assert attack.try_old(subtract.candidates("mini/cola")) == {7, 11}


# ------------------------------------------------------------------------------------------ seeds


def test_each_purpose_has_seeds_of_its_own() -> None:
    salted = ("salt", "batch", "mini/cola", "none", 0, 0)
    changed = [
        ("other", "batch", "mini/cola", "none", 0, 0),
        ("salt", "other", "mini/cola", "none", 0, 0),
        ("salt", "batch", "mini/cola-b2", "none", 0, 0),
        ("salt", "batch", "mini/cola", "mask", 0, 0),
        ("salt", "batch", "mini/cola", "none", 1, 0),
        ("salt", "batch", "mini/cola", "none", 0, 1),
    ]
    assert client_seed(*salted) == client_seed(*salted)
    assert len({client_seed(*parts) for parts in (salted, *changed)}) == 7
    assert derive_seed("a", "b") != derive_seed("a", "b", "")
    assert derive_seed("a", "bc") != derive_seed("a", "b", "c")
    assert 0 <= attack_seed("mini/cola", "dlg", 0) < 2**63
    assert attack_seed("mini/cola", "dlg", 0) != attack_seed("mini/cola", "dlg", 0, 0)
    assert training_seed("salt", "mini/cola", 0) != training_seed("other", "mini/cola", 0)


def test_the_salt_follows_the_private_rows_and_the_maintainers_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path))
    cola, sst2 = (load_task(all_tasks()[name]) for name in ("mini/cola", "mini/sst2"))
    plain = salt(cola)
    assert plain == salt(load_task(all_tasks()["mini/cola-b2"]))  # of the same corpus
    assert plain != salt(sst2)
    stored = json.loads(salt_path("builtin:cola").read_text())
    assert plain not in stored.values()
    salt_path("builtin:cola").write_text("half a file")
    assert salt(cola) == plain
    salt_path("builtin:cola").write_text(json.dumps(stored | {"corpus_digest": "another corpus"}))
    assert salt(cola) == plain
    monkeypatch.setenv("LEAKBOARD_SALT", "a secret of ours")
    assert salt(cola) != plain


def test_the_maintainers_secret_makes_other_snapshots_and_other_cells(
    monkeypatch: pytest.MonkeyPatch, catalogs: Catalogs, tmp_path: Path
) -> None:
    one = snapshot_set(catalogs, "mini/cola", "gaussian_noise")
    choice = Selection("mini", "cola", "random", "gaussian_noise")

    def state() -> tuple[str, str, int]:
        private = one.side.private_batch(0, 0).batch
        (cell,) = plan_cells(choice, *catalogs, tmp_path)
        return one.digest(0, "batch"), cell.fingerprint, one.client_seed(0, private)

    before = state()
    monkeypatch.setenv("LEAKBOARD_SALT", "a secret of ours")
    assert all(old != new for old, new in zip(before, state(), strict=True))


# ----------------------------------------------------------------------------- what an attack gets


class Listening:
    """An engine that keeps what it is asked to do, and does it not."""

    devices, threads = ("cpu",), 1

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, jobs: Any, finished: Any) -> None:
        self.jobs += jobs


@pytest.mark.parametrize("task", ["mini/cola", "mini/cola-dropout"])
def test_no_secret_is_in_what_an_attack_gets(
    task: str, engine: LocalEngine, catalogs: Catalogs, run_cells: RunCells, tmp_path: Path
) -> None:
    one = snapshot_set(catalogs, task, "gaussian_noise")
    verify.build(engine, [one], force=False, memory_limit_mb=8000)
    listening: Any = Listening()
    cells = plan_cells(Selection("mini", task, "random", one.defense.name), *catalogs, tmp_path)
    Run(listening, Quiet(), 60.0, 8000.0, "cpu").run(cells)
    (job,) = listening.jobs
    secrets = [salt(one.side), *(one.read_truth(i).batch_digest for i in one.indices)]
    for index in one.indices:
        seed = one.client_seed(index, one.side.private_batch(index, 0).batch)
        secrets += [str(seed), f"{seed:x}"]
    told = job.work.model_dump_json()
    shown = [path.read_bytes() for path in job.files.values() if path.is_file()]
    sheets = [one.path(index).with_suffix(".json").read_bytes() for index in one.indices]
    for secret in secrets:
        assert secret not in told
        assert not any(secret.encode() in content for content in (*shown, *sheets))
    assert job.work.task.seed == attack_seed(task, "random", 0)


# -------------------------------------------------------------------------------------- repeating


@pytest.mark.parametrize(
    ("task", "defense"), [("mini/cola", "gaussian_noise"), ("mini/cola-dropout", "none")]
)
def test_two_caches_hold_the_same_and_verify_says_identical(
    task: str,
    defense: str,
    engine: LocalEngine,
    catalogs: Catalogs,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    one = snapshot_set(catalogs, task, defense)
    files: list[list[bytes]] = []
    for name in ("first", "second"):
        monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path / name))
        assert verify.build(engine, [one], force=False, memory_limit_mb=8000) == len(one.indices)
        files.append([one.path(index).read_bytes() for index in one.indices])
        files[-1] += [timeless(one.path(index).with_suffix(".json")) for index in one.indices]
    assert files[0] == files[1]
    assert len(set(files[0])) == 2 * len(one.indices)
    verdicts = verify.verify(engine, [one], 8000)
    assert [verdict.word for verdict in verdicts] == ["identical"] * len(one.indices)


def test_the_same_text_twice_does_not_share_its_noise(
    engine: LocalEngine, catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two snapshots of one batch cannot be subtracted from each other, nor averaged away."""
    one = snapshot_set(catalogs, "mini/cola", "gaussian_noise", seed=5)
    first = one.side.private_batch(0, 5)
    monkeypatch.setattr(one.side, "private_batch", lambda index, seed: first)
    try:
        verify.build(engine, [one], force=True, memory_limit_mb=8000)
        name = "bert.embeddings.word_embeddings.weight"
        rows = {tuple(load_file(one.path(i))[name][0].tolist()) for i in one.indices}
        assert len(rows) == len(one.indices)
    finally:
        one.remove()
        for index in one.indices:
            one.truth_path(index).unlink()


# ------------------------------------------------------------------------------------- old formats


def test_what_an_older_version_stored_is_made_again(
    engine: LocalEngine, catalogs: Catalogs
) -> None:
    one = snapshot_set(catalogs, "mini/cola", "gaussian_noise", seed=6)
    verify.build(engine, [one], force=True, memory_limit_mb=8000)
    sheet = one.path(3).with_suffix(".json")
    kept = timeless(sheet)
    for path in (sheet, one.truth_path(4)):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    assert one.missing() == [3]
    assert [v.word for v in verify.verify(engine, [one], 8000)] == ["identical"] * (
        len(one.indices) - 1
    )
    assert verify.build(engine, [one], force=False, memory_limit_mb=8000) == 1
    assert timeless(sheet) == kept
    assert json.loads(one.truth_path(4).read_text())["format"] == 2
