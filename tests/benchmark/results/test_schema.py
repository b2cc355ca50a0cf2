"""Records: strict, atomic, and named after their cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchmark.errors import UserError
from benchmark.files import OtherVersion, Strict, read_model, write_atomically, write_model
from benchmark.plugins.names import variant
from benchmark.results.schema import (
    SCHEMA_VERSION,
    FederatedResult,
    MetricValue,
    Provenance,
    Record,
    Score,
    SnapshotResult,
    Status,
    UtilityRecord,
)
from benchmark.results.store import cell_path, record_files, record_path
from tests.harness import RunCells


def sample(**changes: object) -> Record:
    provenance = Provenance(
        fingerprint="f", attack_digest="a", defense_digest="d", git_commit="", git_dirty=False,
        packages={"torch": "2.13.0"}, python="3.11.7", platform="Linux x86_64", processor="some",
        cores=2, memory_gb=24.0, device="cpu", threads=1, tf32=False, sandbox="bubblewrap",
        created=datetime(2026, 11, 16, tzinfo=UTC),
    )  # fmt: skip
    values: dict[str, object] = {
        "suite": "mini", "task": "mini/cola", "task_version": 1, "attack": "random",
        "defense": "none", "seed": 0, "status": Status.OK, "provenance": provenance,
    }  # fmt: skip
    return Record(**(values | changes))  # type: ignore[arg-type]


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    path = record_path(tmp_path, sample())
    write_model(path, sample())
    assert read_model(path, Record) == sample()
    assert path == tmp_path / "mini" / "cola" / "none" / "random.s0.json"
    assert list(record_files(tmp_path)) == [path]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": "0"},
        {"surprise": 1},
        {"status": "splendid"},
        {"peak_mb": "12"},
        {"peak_mb": float("nan")},
        {"schema_version": SCHEMA_VERSION + 1},
    ],
)
def test_anything_off_is_refused_with_the_file_name(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "x.json"
    content = json.loads(sample().model_dump_json()) | change
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"x\.json is not a valid record"):
        read_model(path, Record)


def test_a_record_of_a_newer_version_is_left_alone(tmp_path: Path, run_cells: RunCells) -> None:
    """It is not damaged: another Leakboard made it, and an older one does not run over it."""
    path = record_path(tmp_path, sample())
    newer = json.loads(sample().model_dump_json()) | {"schema_version": 99, "new": "field"}
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(newer))
    with pytest.raises(OtherVersion, match=r"its schema_version is 99; update Leakboard"):
        run_cells("random", results=tmp_path)
    assert json.loads(path.read_text()) == newer


LONG = "y" * 1_000_000
FREE = ("texts", "truth", "recovered")
"""What was recovered may be long; pages cut it."""


def with_long_texts(value: Any) -> Iterator[Any]:
    """Copies of a JSON value, each with one text or key replaced by a long one."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        if isinstance(inner, str) and key not in FREE:
            yield _replaced(value, key, LONG)
        elif isinstance(inner, dict | list) and key not in FREE:
            yield from (_replaced(value, key, each) for each in with_long_texts(inner))
    if isinstance(value, dict) and value:
        first = next(iter(value))
        yield {LONG if key == first else key: inner for key, inner in value.items()}


def _replaced(value: Any, key: Any, inner: Any) -> Any:
    made = value.copy()
    made[key] = inner
    return made


def long_samples() -> Iterator[tuple[type[Strict], Any]]:
    """One model of each kind that others may hand in, as JSON with one long text in it."""
    snapshot = SnapshotResult(index=0, digest="d", status=Status.OK, note="n", texts=["a"])
    record = sample(told=["labels"], attack_parameters={"a": "b"}, snapshots=[snapshot])
    federated = FederatedResult(failures={"it failed": 1})
    shared = sample().model_dump(exclude={"attack", "attack_parameters", "attack_variant", "told",
        "baseline", "snapshots", "prepare_seconds", "withheld"})  # fmt: skip
    utility = UtilityRecord(**shared, metrics={"mcc": 0.5}, federated=federated)
    value = MetricValue(mean=1.0, low=1.0, high=1.0, n=1, values=[1.0])
    score = Score(record_digest="d", metrics={"rougeL": value})
    for model in (record, utility, score):
        for changed in with_long_texts(json.loads(model.model_dump_json())):
            yield type(model), changed


def test_no_text_is_long() -> None:
    """A long one is refused, or cut where it is only read by people."""
    tried = 0
    for kind, changed in long_samples():
        tried += 1
        try:
            read = kind.model_validate_json(json.dumps(changed), strict=True)
        except ValidationError:
            continue
        assert len(read.model_dump_json()) < 20_000
    assert tried > 50


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(sample().model_dump_json()[:100])
    with pytest.raises(UserError, match="delete it and run the cell again"):
        read_model(path, Record)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")

    def no_disk(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", no_disk)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_from_outside_cannot_leave_the_results_folder(tmp_path: Path) -> None:
    path = cell_path(tmp_path, "mini/cola", "none", "../../x<script>", 0)
    assert path.parent == tmp_path / "mini" / "cola" / "none"
    assert "<" not in path.name


def test_a_variant_names_its_parameters_in_order() -> None:
    assert variant("prune", {"ratio": 0.9, "a": True}) == "prune[a=True,ratio=0.9]"
    assert variant("none", {}) == "none"


STORED = Path(__file__).parent / "stored"


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_stored_record_of_every_schema_version_still_loads(version: int) -> None:
    """A new version adds its files here; one that cannot read the old ones is refused."""
    record = read_model(STORED / f"record-v{version}.json", Record)
    assert record.attack_name == "bag_of_words"
    assert [result.status for result in record.snapshots] == [Status.OK] * 8
    score = read_model(STORED / f"score-v{version}.json", Score)
    assert score.metrics["type_f1"].mean == 1.0
    utility = read_model(STORED / f"utility-v{version}.json", UtilityRecord)
    assert utility.metrics
    assert utility.rounds


def test_an_older_record_does_not_tell_whether_the_attack_guesses() -> None:
    old, new = (read_model(STORED / f"record-v{v}.json", Record) for v in (1, 2))
    assert (old.baseline, new.baseline) == (None, False)
    assert old.snapshot_set != new.snapshot_set
    assert len(old.snapshot_set) == 64


def test_only_what_was_never_attacked_is_ruled_out() -> None:
    refused = SnapshotResult(index=0, digest="a", status=Status.UNSUPPORTED, reason="too long")
    assert sample(status=Status.UNSUPPORTED).ruled_out
    assert not sample(status=Status.UNSUPPORTED, snapshots=[refused]).ruled_out
    assert not sample(status=Status.ERROR).ruled_out
    assert sample().snapshot_set == ""
