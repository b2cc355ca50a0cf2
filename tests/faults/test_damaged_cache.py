"""A file of the cache that has changed is never computed with, and never blamed on an attack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.paths import cache_in
from benchmark.plugins.candidates import Candidate
from benchmark.plugins.catalog import described
from benchmark.plugins.description import Description
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.results.schema import Status
from benchmark.runs.federated_store import SimulationStore
from benchmark.runs.server_view import public_table
from benchmark.runs.threat_model import _hold_out_text
from benchmark.snapshots.salt import salt, salt_path
from tasks import private
from tasks.models import form
from tasks.models.form import model_form
from tests.benchmark.runs.federated_setup import small_task
from tests.harness import RunCells

COLA = "mini/cola"


@contextmanager
def changed(path: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    """A file with other content meanwhile."""
    before = path.read_bytes()
    path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)


def flip(content: bytes) -> bytes:
    """The same with one bit of its middle flipped."""
    middle = len(content) * 3 // 4
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("change", [flip, lambda content: content[:100], lambda content: b""])
def test_prepared_weights_that_have_changed_are_refused(
    name: str, change: Callable[[bytes], bytes], cache: Path
) -> None:
    task = all_tasks()[COLA]
    folder = load_task(task).model_directory
    assert folder.is_relative_to(cache)
    with (
        changed(folder / name, change),
        pytest.raises(UserError, match=r"is damaged: its files are not those .* delete the folder"),
    ):
        private.load(task)
    private.load(task)


def test_the_servers_model_is_refused_alike(tmp_path: Path) -> None:
    source = load_task(all_tasks()[COLA]).model_directory
    target = tmp_path / "view"
    package = model_package()
    package.write_view(source, target, "classification", {})
    assert package.verify_checksum(target) == target
    package.write_view(source, target, "classification", {})  # somebody else was faster
    with (
        changed(target / "model.safetensors", flip),
        pytest.raises(UserError, match="is damaged"),
    ):
        package.verify_checksum(target)


def test_hold_out_text_that_has_changed_is_written_again(
    run_cells: RunCells, engine: LocalEngine
) -> None:
    path = _hold_out_text(load_task(all_tasks()[COLA]))
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"the", b"teh", 1), b"[1, 2"):
        path.write_bytes(damaged)
        assert _hold_out_text(load_task(all_tasks()[COLA])).read_bytes() == whole
    path.write_bytes(b"{")
    assert [record.status for record in run_cells("public_sentences")] == [Status.OK]


def test_word_vectors_that_have_changed_are_written_again(cache: Path) -> None:
    side = load_task(all_tasks()[COLA])
    path = public_table(side)
    whole = path.read_bytes()
    path.write_bytes(flip(whole))
    assert public_table(side).read_bytes() == whole


def test_a_salt_that_has_changed_is_computed_again(run_cells: RunCells) -> None:
    """Another salt is other noise, which nobody would see in a record."""
    assert [record.status for record in run_cells("random")] == [Status.OK]
    side = load_task(all_tasks()[COLA])
    path = salt_path(side.task.corpus)
    whole, noise = path.read_bytes(), salt(side)
    digest = json.loads(whole)["rows_digest"].encode()
    for damaged in (whole.replace(digest, digest[::-1]), whole[:40], b""):
        path.write_bytes(damaged)
        assert run_cells("random") == []  # of the same fingerprint, so there already
        assert path.read_bytes() == whole
        assert salt(side) == noise


def test_the_form_of_a_model_that_has_changed_is_read_off_again(tmp_path: Path) -> None:
    folder = load_task(all_tasks()[COLA]).model_directory
    form._form.cache_clear()
    with cache_in(tmp_path):
        sound = model_form(folder, "classification")
        (path,) = (tmp_path / "forms").glob("*.json")
        whole = path.read_bytes()
        for damaged in (whole.replace(b"[", b"[7,", 1), whole[:100], b""):
            path.write_bytes(damaged)
            form._form.cache_clear()
            assert model_form(folder, "classification") == sound
            assert path.read_bytes() == whole
    form._form.cache_clear()


def test_a_description_that_has_changed_is_asked_for_again(tmp_path: Path) -> None:
    found = Description(
        name="some", summary="Guesses.", paper="", allow_tf32=False, parameters={}, variants={},
        observes=(), needs=(), objectives=(), baseline=True, overrides=(),
    )  # fmt: skip
    asked: list[str] = []

    def describe(kind: str, reference: str) -> Description:
        asked.append(reference)
        return found

    candidate = Candidate("some", "here", (Path(__file__),))
    with cache_in(tmp_path):
        assert described("attack", candidate, describe) == found
        (path,) = (tmp_path / "descriptions").glob("*.json")
        whole = path.read_bytes()
        for damaged in (whole.replace(b"true", b"false"), whole[:30], b"", b"\xff", b"[" * 100_000):
            path.write_bytes(damaged)
            assert described("attack", candidate, describe) == found
            assert path.read_bytes() == whole
        assert described("attack", candidate, describe) == found
    assert len(asked) == 6


@pytest.fixture
def training(tmp_path: Path) -> Iterator[SimulationStore]:
    """The folder of a federated training."""
    with cache_in(tmp_path):
        side = load_task(small_task())
        yield SimulationStore(side, seed=7, fingerprint="f")


@pytest.mark.parametrize("kind", ["server", "client", "checkpoint"])
@pytest.mark.parametrize("change", [flip, lambda content: content[:100], lambda content: b""])
def test_a_federated_training_does_not_go_on_from_what_has_changed(
    kind: str, change: Callable[[bytes], bytes], training: SimulationStore, tmp_path: Path
) -> None:
    first = training.read()
    made = tmp_path / "made"
    made.write_bytes(training.path(first.weights).read_bytes())
    state = training.keep_state(3, 1, made)
    later = first.model_copy(update={"round": 1, "states": {3: state}})
    training.commit(later, observed=True)
    assert training.read() == training.observed(1) == later
    (path, *_) = sorted(training.folder.glob(f"{kind}*"))
    with changed(path, change if kind != "checkpoint" else lambda content: content[:100]):
        assert (training.observed(1) is None) == (kind != "checkpoint")
        assert training.read().round == 0
    training.path("observed-00001.json").write_bytes(b"{")
    training.commit(first, observed=False)  # nor does that stop it
    assert training.observed(1) is None


def test_rows_of_clients_that_have_changed_are_written_again(training: SimulationStore) -> None:
    training.lay_out()
    before = {path: path.read_bytes() for path in training.path("rows").iterdir()}
    for path in (training.rows(0), training.path("rows/test")):
        path.write_bytes(flip(before[path]))
        training.lay_out()
        assert path.read_bytes() == before[path]
    training.rows(1).unlink()
    training.lay_out()
    assert {path: path.read_bytes() for path in training.path("rows").iterdir()} == before
