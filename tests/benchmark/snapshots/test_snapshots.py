"""Snapshots: deterministic, stored, comparable; a damaged one is named and never attacked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import all_tasks, load_task, model_package
from benchmark.plugins.selection import choose
from benchmark.snapshots import verify
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.sketch import Comparison, compare, sketch
from benchmark.snapshots.store import read_manifest, read_truth
from benchmark.snapshots.validate import CheckedUpdate
from tests.harness import RunCells


@pytest.fixture(scope="module")
def snapshots(engine: LocalEngine, catalogs: tuple[Catalog, Catalog]) -> SnapshotSet:
    """The undefended snapshots of a task of this module's own."""
    none = choose(catalogs[1], "defense", "none")[0]
    found = SnapshotSet(load_task(all_tasks()["mini/cola-b2"]), none, seed=0)
    verify.build(engine, [found], force=True, memory_limit_mb=8000)
    return found


def test_a_snapshot_is_the_gradient_of_the_task_itself(snapshots: SnapshotSet) -> None:
    """Against plain autograd, outside the harness."""
    side = snapshots.side
    room = model_package()
    model, _ = room.open_model(
        side.model_directory, "classification", "float32", torch.device("cpu")
    )
    batch = side.private_batch(3, 0).batch
    model.zero_grad()
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    torch.nn.functional.cross_entropy(logits, batch.labels).backward()
    stored = load_file(snapshots.path(3))
    assert stored.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(stored[name], parameter.grad, rtol=1e-4, atol=1e-6)


def test_building_again_gives_the_same(engine: LocalEngine, snapshots: SnapshotSet) -> None:
    verdicts = verify.verify(engine, [snapshots], 8000)
    assert len(verdicts) == len(snapshots.indices)
    assert all(verdict.fine for verdict in verdicts)
    before = [read_manifest(snapshots.path(i)).digest for i in snapshots.indices]
    assert verify.build(engine, [snapshots], force=False, memory_limit_mb=8000) == 0
    verify.build(engine, [snapshots], force=True, memory_limit_mb=8000)
    assert before == [read_manifest(snapshots.path(i)).digest for i in snapshots.indices]
    assert len(set(before)) == len(snapshots.indices)


def test_the_truth_lies_elsewhere(snapshots: SnapshotSet) -> None:
    assert "truths" in snapshots.truth_path(0).parts
    assert "truths" not in snapshots.path(0).parts
    text = snapshots.read_truth(0).sentences[0].text
    for path in snapshots.path(0).parent.iterdir():
        assert text.encode() not in path.read_bytes()


def edit_tensor(path: Path) -> None:
    tensors = load_file(path)
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] += 1.0
    save_file(tensors, path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edit_sheet(path: Path) -> None:
    manifest = path.with_suffix(".json")
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))


@pytest.mark.parametrize("harm", [edit_tensor, cut, edit_sheet])
def test_damage_is_found_and_named(  # type: ignore[no-untyped-def]
    harm, engine: LocalEngine, snapshots: SnapshotSet, run_cells: RunCells
) -> None:
    path = snapshots.path(1)
    kept = path.read_bytes(), path.with_suffix(".json").read_bytes()
    try:
        harm(path)
        bad = [v for v in verify.verify(engine, [snapshots], 8000) if not v.fine]
        assert [v.word for v in bad] == ["damaged"]
        assert "001." in bad[0].sentence
        with pytest.raises(UserError, match=r"001\.(json|safetensors) is damaged"):
            run_cells("random", task="mini/cola-b2")
    finally:
        path.write_bytes(kept[0])
        path.with_suffix(".json").write_bytes(kept[1])


def test_other_tensors_with_a_proper_seal_are_still_different(
    engine: LocalEngine, snapshots: SnapshotSet
) -> None:
    """Somebody who edits the tensors and writes a new manifest is found by rebuilding."""
    path = snapshots.path(2)
    kept = path.read_bytes(), path.with_suffix(".json").read_bytes()
    try:
        tensors = {name: tensor.numpy() * 1.5 for name, tensor in load_file(path).items()}
        snapshots.keep(2, CheckedUpdate(tensors, "gradient", 1, 1.0, None, None))
        bad = [v for v in verify.verify(engine, [snapshots], 8000) if not v.fine]
        assert [v.word for v in bad] == ["different"]
    finally:
        path.write_bytes(kept[0])
        path.with_suffix(".json").write_bytes(kept[1])


def test_an_edited_truth_is_refused(snapshots: SnapshotSet) -> None:
    path = snapshots.truth_path(4)
    kept = path.read_text()
    try:
        body = json.loads(kept)
        body["sentences"][0]["text"] = "something easier"
        path.write_text(json.dumps(body))
        with pytest.raises(UserError, match=r"004\.json is damaged"):
            read_truth(path)
    finally:
        path.write_text(kept)


def test_the_project_published_its_own_sketches(snapshots: SnapshotSet) -> None:
    published = [list(verify._published(snapshots, index)) for index in snapshots.indices]
    for index, found in zip(snapshots.indices, published, strict=True):
        assert len(found) == 1
        digest, numbers = found[0]
        manifest = read_manifest(snapshots.path(index))
        assert digest == manifest.digest
        assert compare(numbers, manifest.sketch) is not Comparison.DIFFERENT


@given(st.integers(1, 3000), st.integers(0, 2**31))
def test_a_sketch_tells_rounding_from_change(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tensor = generator.standard_normal(size).astype(np.float32) + 0.1
    rounded = (tensor.astype(np.float64) * (1 + 1e-6)).astype(np.float32)
    own = {"w": sketch(tensor)}
    assert compare(own, {"w": sketch(tensor)}) is Comparison.IDENTICAL
    assert compare(own, {"w": sketch(rounded)}) is not Comparison.DIFFERENT
    assert compare(own, {"w": sketch(tensor * np.float32(1.01))}) is Comparison.DIFFERENT
    assert compare(own, {"w": sketch(-tensor)}) is not Comparison.IDENTICAL
    assert compare(own, {"v": own["w"]}) is Comparison.DIFFERENT


def test_a_tensor_that_is_zero_but_for_rounding_cannot_differ() -> None:
    """The gradient of an attention's key bias is nothing but rounding, another on each machine."""
    large = sketch(np.ones(100))
    here = {"large": large, "key.bias": [1e-8, 3e-9, -2e-9]}
    there = {"large": large, "key.bias": [2e-8, -7e-9, 5e-9]}
    assert compare(here, there) is Comparison.ROUNDING
    assert compare(here, there | {"key.bias": [1.0, 0.5, 0.5]}) is Comparison.DIFFERENT


def test_a_sketch_equals_its_plain_definition() -> None:
    tensor = np.random.default_rng(0).standard_normal(2_500_000)
    steps = np.arange(tensor.size)
    from benchmark.snapshots.sketch import WAVES

    plain = [np.linalg.norm(tensor), *(tensor @ np.cos(f * steps + p) for f, p in WAVES)]
    np.testing.assert_allclose(sketch(tensor), plain, atol=1e-4 * plain[0])


def test_batch_variants_attack_the_same_sentences() -> None:
    one, two = (load_task(all_tasks()[n]) for n in ("mini/cola", "mini/cola-b2"))
    singles = [one.private_batch(i, 0).truth.sentences[0].text for i in range(4)]
    pairs = [s.text for i in range(2) for s in two.private_batch(i, 0).truth.sentences]
    assert singles == pairs
    other = [one.private_batch(i, 1).truth.sentences[0].text for i in range(4)]
    assert other != singles
