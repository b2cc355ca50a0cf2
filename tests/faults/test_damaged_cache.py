"""A file of the cache that has changed is never computed with, and never blamed on an attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.results.schema import Status
from benchmark.runs.server_view import public_table
from benchmark.runs.threat_model import _hold_out_text
from tasks import private
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
