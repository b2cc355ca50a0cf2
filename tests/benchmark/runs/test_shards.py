"""Parts of a plan: together the whole of it, even, and the same whoever asks and when."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.plugins.catalog import Entry
from benchmark.plugins.registry import all_tasks
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.store import cell_path
from benchmark.runs.plan import Cell
from benchmark.runs.shards import Shard, assign, take_shard

TASKS = ("mini/cola", "mini/sst2", "mini/wikitext")


def submission(kind: str, name: str) -> ConfiguredSubmission:
    return ConfiguredSubmission(Entry(kind, name, "", "", "", "", False, {}))  # type: ignore[arg-type]


def plan(results: Path, seed: int = 0, each: int = 40) -> list[Cell]:
    """Cells with times between a tenth of a second and five minutes."""
    draw = random.Random(seed)
    return [
        Cell(
            suite="mini",
            task=all_tasks()[task],
            defense=submission("defense", "none"),
            seed=0,
            path=cell_path(results, task, "none", f"attack{number}", 0),
            fingerprint="",
            cached=False,
            expected_seconds=10 ** draw.uniform(-1, 2.5),
            attack=submission("attack", f"attack{number}"),
        )
        for task in TASKS
        for number in range(each)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200])
def test_the_parts_are_the_plan(count: int, tmp_path: Path) -> None:
    cells = plan(tmp_path)
    parts = [take_shard(cells, Shard(i, count), tmp_path) for i in range(1, count + 1)]
    assert sorted(c.path for part in parts for c in part) == sorted(c.path for c in cells)


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_take_about_as_long(seed: int, tmp_path: Path) -> None:
    cells = plan(tmp_path, seed)
    parts = assign(cells, 4, tmp_path)
    loads = [0.0] * 4
    for cell in cells:
        loads[parts[str(cell.path.relative_to(tmp_path))] - 1] += cell.expected_seconds
    longest = max(cell.expected_seconds for cell in cells)
    assert max(loads) <= max(sum(loads) / 4 * 1.15, longest)


def test_later_jobs_follow_the_first_whatever_they_expect_themselves(tmp_path: Path) -> None:
    """Records of finished cells change the expected times; the parts stay as they were."""
    cells = plan(tmp_path)
    first = take_shard(cells, Shard(1, 3), tmp_path)
    later = [replace(cell, expected_seconds=1.0, cached=True) for cell in reversed(cells)]
    again = take_shard(later, Shard(1, 3), tmp_path)
    assert {cell.path for cell in again} == {cell.path for cell in first}
    unaware = take_shard(later, Shard(1, 3), tmp_path / "elsewhere", write=False)
    assert {cell.path for cell in unaware} != {cell.path for cell in first}
    assert not (tmp_path / "elsewhere").exists()


def test_a_damaged_assignment_is_made_again(tmp_path: Path) -> None:
    cells = plan(tmp_path)
    first = take_shard(cells, Shard(2, 3), tmp_path)
    (stored,) = tmp_path.glob(".shards-*")
    whole = stored.read_bytes()
    for text in (b"", b"{", b'{"shards": {}}'):
        stored.write_bytes(text)
        assert take_shard(cells, Shard(2, 3), tmp_path) == first
        assert stored.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [stored]


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "a/b", "1/2/3", "-1/2", "1/" + "9" * 30])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--shard"):
        Shard.parse(text)


def test_short_cells_on_the_same_snapshots_stay_together(tmp_path: Path) -> None:
    """Two parts of equal cells: neither gets every second one of a task."""
    cells = [replace(cell, expected_seconds=1.0) for cell in plan(tmp_path)]
    parts = assign(cells, 2, tmp_path)
    owners = [parts[str(cell.path.relative_to(tmp_path))] for cell in cells]
    changes = sum(a != b for a, b in pairwise(owners))
    assert abs(owners.count(1) - 60) <= 8
    assert changes <= 24
