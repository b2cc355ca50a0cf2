"""One sound file of every kind that the harness reads, and how it reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmark.exchange.package import Environment, SubmissionPackage, read_package
from benchmark.files import file_digest, read_model, remember, remembered, write_model
from benchmark.paths import cache_in
from benchmark.plugins.registry import all_tasks, load_task
from benchmark.results import scoring, worst_case
from benchmark.results.index import FILE, RecordIndex
from benchmark.results.merge import merge
from benchmark.results.schema import Record, Status, UtilityRecord
from benchmark.results.store import score_path, utility_path, worst_case_files
from benchmark.results.utility_summary import utility_costs
from benchmark.results.verification import Verification, mark, read_mark, verification_path
from benchmark.runs.federated_store import Checkpoint, SimulationStore
from benchmark.runs.shards import ShardTable
from benchmark.snapshots.store import (
    Manifest,
    StoredTruth,
    check_file,
    read_manifest,
    read_truth,
    write_checked,
)
from benchmark.spec import TrueSentence
from leaderboard.data.rows import load
from leaderboard.views.timing import load_timing
from tasks.models.digests import verify_checksum, write_checksum
from tasks.own.texts import read_texts
from tests.leaderboard.samples import make_provenance, make_record, make_score, store


@dataclass(frozen=True)
class Kind:
    """A kind of file: where a sound one lies, and everything that reads it."""

    name: str
    path: Path
    read: Callable[[], object]


def kinds(folder: Path) -> list[Kind]:
    """A sound file of each kind below a folder."""
    return [*_results(folder / "results"), *_cache(folder / "cache"), *_handed_in(folder / "other")]


def _results(results: Path) -> Iterator[Kind]:
    record = store(results, make_record(), make_score())
    write_model(utility_path(results, "mini/cola-b1", "none", 0), _utility())
    mark(record, _mark(record))
    worst_case.write_worst_cases(results)

    def everything() -> None:
        for _ in scoring.rows(results), load(results), worst_case.worst_cases(results):
            pass
        utility_costs(results)
        read_mark(record)
        for _ in scoring.score_all(results):
            pass

    def joined() -> None:
        everything()
        merge([results], results.parent / "joined")

    yield Kind("record", record, everything)
    yield Kind("record to merge", record, joined)
    yield Kind("score", score_path(record), everything)
    yield Kind("mark", verification_path(record), everything)
    yield Kind("utility record", utility_path(results, "mini/cola-b1", "none", 0), everything)
    for path in list(worst_case_files(results)):
        yield Kind("worst case", path, everything)
    index, table = results / FILE, results / ".shards-x.json"
    known = RecordIndex(results)
    known.look_up(record, Record, lambda found: 1.0)
    known._read = 1000
    known.save()
    write_model(table, ShardTable(shards={"a": 1, "b": 2}))
    looked = lambda: RecordIndex(results).look_up(record, Record, lambda found: 1.0)  # noqa: E731
    yield Kind("index", index, looked)
    yield Kind("shards", table, lambda: read_model(table, ShardTable))


def _cache(cache: Path) -> Iterator[Kind]:
    import torch
    from safetensors.torch import save_file

    cache.mkdir(parents=True)
    tensors, truth = cache / "000.safetensors", cache / "truth.json"
    save_file({"weight": torch.ones(8)}, tensors)
    write_checked(tensors.with_suffix(".json"), _manifest(tensors))
    sentence = TrueSentence((5, 6), "a sentence", 1, ())
    facts = {"task": "mini/cola", "task_digest": "d", "seed": 0, "index": 0, "batch_digest": "b"}
    stored = StoredTruth(**facts, sentences=[sentence], labels=[1], lengths=[2])  # type: ignore[arg-type]
    write_checked(truth, stored)

    def attacked() -> None:
        check_file(tensors, read_manifest(tensors))

    yield Kind("tensors", tensors, attacked)
    yield Kind("manifest", tensors.with_suffix(".json"), attacked)
    yield Kind("truth", truth, lambda: read_truth(truth))
    model = shutil.copytree(Path("tasks/models/weights/bert-cola").resolve(), cache / "model")
    write_checksum(model)
    for name in ("config.json", "tokenizer.json", "model.safetensors", "model.sha256"):
        yield Kind(name, model / name, lambda: verify_checksum(model))
    yield from _made_again(cache)


def _made_again(cache: Path) -> Iterator[Kind]:
    """What is only kept to save time: nobody is told that it has changed."""
    kept, checkpoint = cache / "kept.json", cache / "simulations" / "f" / "checkpoint.json"
    remember(kept, "{}")

    def kept_or_made() -> None:
        with suppress(FileNotFoundError):
            remembered(kept)

    def gone_on() -> None:
        with cache_in(cache):
            SimulationStore(load_task(all_tasks()["mini/agnews-fl"]), 0, "f").read()

    write_model(checkpoint, Checkpoint(fingerprint="f", weights="server-00000.safetensors"))
    yield Kind("remembered", kept, kept_or_made)
    yield Kind("checkpoint", checkpoint, gone_on)


def _handed_in(folder: Path) -> Iterator[Kind]:
    """What others hand in: packages, timings, text of their own."""
    package, timing, text = (folder / f"{name}.json" for name in ("package", "timing", "text"))
    origin = make_provenance().model_dump(include=set(Environment.model_fields))
    write_model(package, SubmissionPackage(
        kind="attack", submission="random", source_digest="d", suite="mini", seed=0,
        created=datetime(2026, 1, 1, tzinfo=UTC), environment=Environment(**origin),
        records=[make_record()], utility=[_utility()],
    ))  # fmt: skip
    runs = {"datetime": "2026-01-01T00:00:00", "benchmarks": [], "commit_info": {"id": "c"}}
    timing.write_text(json.dumps(runs | {"machine_info": {}}))
    text.write_text('{"text": "a sentence", "label": 1}\n{"text": "another", "label": 0}\n')
    yield Kind("package", package, lambda: read_package(package))
    yield Kind("timing", timing, lambda: load_timing(timing))
    yield Kind("text", text, lambda: read_texts(text, "classification"))


def _utility() -> UtilityRecord:
    return UtilityRecord(
        suite="mini", task="mini/cola-b1", task_version=1, defense="none", seed=0, status=Status.OK,
        provenance=make_provenance(), metrics={"mcc": 0.5}, rounds=3, step_seconds=0.1,
    )  # fmt: skip


def _mark(record: Path) -> Verification:
    return Verification(
        record_digest=file_digest(record), agreement="same", date=datetime(2026, 1, 1, tzinfo=UTC),
        machine="x", device="cpu", packages={}, git_commit="",
    )  # fmt: skip


def _manifest(tensors: Path) -> Manifest:
    return Manifest(
        task="mini/cola", task_version=1, defense="none", defense_parameters={}, seed=0, index=0,
        digest="d", file_sha256=file_digest(tensors), update_kind="gradient", local_steps=1,
        learning_rate=1.0, noise_scale=None, epsilon=None, bytes_up=32, roles={}, sketch={},
    )  # fmt: skip
