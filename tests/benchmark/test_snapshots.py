"""Snapshots: deterministic, sealed, comparable; a damaged one is named and never attacked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from benchmark import registry, upkeep
from benchmark.building import SnapshotSet
from benchmark.engines.local import LocalEngine
from benchmark.errors import UserError
from benchmark.planning import choose
from benchmark.registry import Catalogue
from benchmark.snapshots import Comparison, compare, number_from, read_sheet, read_truth, sketch
from tests.harness import RunCells


@pytest.fixture(scope="module")
def snapshots(engine: LocalEngine, catalogues: tuple[Catalogue, Catalogue]) -> SnapshotSet:
    """The undefended snapshots of a task of this module's own."""
    none = choose(catalogues[1], "defense", "none")[0]
    found = SnapshotSet(registry.load_task(registry.tasks()["mini/cola-b2"]), none, seed=0)
    upkeep.build(engine, [found], force=True, memory_limit_mb=8000)
    return found


def test_a_snapshot_is_the_gradient_of_the_task_itself(snapshots: SnapshotSet) -> None:
    """Against plain autograd, outside the harness."""
    side = snapshots.side
    room = registry.model_room()
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
    verdicts = upkeep.verify(engine, [snapshots], 8000)
    assert len(verdicts) == 8
    assert all(verdict.fine for verdict in verdicts)
    before = [read_sheet(snapshots.path(i)).digest for i in snapshots.indices]
    assert upkeep.build(engine, [snapshots], force=False, memory_limit_mb=8000) == 0
    upkeep.build(engine, [snapshots], force=True, memory_limit_mb=8000)
    assert before == [read_sheet(snapshots.path(i)).digest for i in snapshots.indices]
    assert len(set(before)) == 8


def test_the_truth_lies_elsewhere(snapshots: SnapshotSet) -> None:
    assert "truths" in snapshots.truth_path(0).parts
    assert "truths" not in snapshots.path(0).parts
    text = snapshots.read_truth(0).sentences[0]["text"]
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
    sheet = path.with_suffix(".json")
    sheet.write_text(sheet.read_text().replace('"seed": 0', '"seed": 1'))


@pytest.mark.parametrize("harm", [edit_tensor, cut, edit_sheet])
def test_damage_is_found_and_named(  # type: ignore[no-untyped-def]
    harm, engine: LocalEngine, snapshots: SnapshotSet, run_cells: RunCells
) -> None:
    path = snapshots.path(1)
    kept = path.read_bytes(), path.with_suffix(".json").read_bytes()
    try:
        harm(path)
        bad = [v for v in upkeep.verify(engine, [snapshots], 8000) if not v.fine]
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
    """Somebody who edits the tensors and writes a new sheet is found by rebuilding."""
    path = snapshots.path(2)
    kept = path.read_bytes(), path.with_suffix(".json").read_bytes()
    try:
        tensors = {name: tensor * 1.5 for name, tensor in load_file(path).items()}
        save_file(tensors, snapshots.path(2).with_name("forged.safetensors"))
        update = {"update_kind": "gradient", "noise_scale": None, "epsilon": None, "bytes_up": 1,
                  "roles": {}, "local_steps": 1, "learning_rate": 1.0}  # fmt: skip
        snapshots._seal(2, update, path.with_name("forged.safetensors"))
        bad = [v for v in upkeep.verify(engine, [snapshots], 8000) if not v.fine]
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
    published = [list(upkeep._published(snapshots, index)) for index in snapshots.indices]
    for index, found in zip(snapshots.indices, published, strict=True):
        assert len(found) == 1
        digest, numbers = found[0]
        sheet = read_sheet(snapshots.path(index))
        assert digest == sheet.digest
        assert compare(numbers, sheet.sketch) is not Comparison.DIFFERENT


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
    from benchmark.snapshots import WAVES

    plain = [np.linalg.norm(tensor), *(tensor @ np.cos(f * steps + p) for f, p in WAVES)]
    np.testing.assert_allclose(sketch(tensor), plain, atol=1e-4 * plain[0])


def test_seeds_differ_and_repeat() -> None:
    assert number_from("a", 1) == number_from("a", 1)
    assert len({number_from("a", i) for i in range(100)}) == 100
    assert 0 <= number_from("x") < 2**63


def test_batch_variants_attack_the_same_sentences() -> None:
    one, two = (registry.load_task(registry.tasks()[n]) for n in ("mini/cola", "mini/cola-b2"))
    singles = [one.private_batch(i, 0).truth.sentences[0].text for i in range(4)]
    pairs = [s.text for i in range(2) for s in two.private_batch(i, 0).truth.sentences]
    assert singles == pairs
    other = [one.private_batch(i, 1).truth.sentences[0].text for i in range(4)]
    assert other != singles
