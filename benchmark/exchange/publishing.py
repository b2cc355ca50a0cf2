"""Publishes results: records and scores for the repository, without the text they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmark.files import file_digest, read_model, write_model
from benchmark.results.schema import Measured, Record, UtilityRecord
from benchmark.results.store import (
    fresh_score,
    record_files,
    record_path,
    score_path,
    utility_files,
    utility_path,
)
from benchmark.results.withholding import withhold, withhold_examples


@dataclass(frozen=True)
class Published:
    """What became of one file."""

    path: Path
    reason: str = ""
    """Why it was left out; empty where it was published."""


def publish(results: Path, out: Path, wanted: Callable[[Measured], bool]) -> Iterator[Published]:
    """Write everything that is scored below `out`; the same file for the same record, always."""
    for path in record_files(results):
        record = read_model(path, Record)
        if wanted(record):
            yield _publish(path, record, out)
    for path in utility_files(results):
        trained = read_model(path, UtilityRecord)
        if wanted(trained):
            target = utility_path(out, trained.task, trained.defense_name, trained.seed)
            write_model(target, trained)
            yield Published(target)


def _publish(path: Path, record: Record, out: Path) -> Published:
    score = fresh_score(path)
    if score is None:
        return Published(path, "it has no score; run `leakboard score` first")
    target = record_path(out, record)
    write_model(target, withhold(record))
    write_model(score_path(target), withhold_examples(score, file_digest(target)))
    return Published(target)
