"""Where results lie: one JSON record a cell, its score and the worst case beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmark.errors import UserError, printable
from benchmark.files import Model, file_digest, file_name, read_model
from benchmark.results.schema import Record, Score

RECORD_SUFFIX = ".json"
SCORE_SUFFIX = ".score.json"
UTILITY_SUFFIX = ".utility.json"
VERIFIED_SUFFIX = ".verified.json"
WORST_CASE_SUFFIX = ".worst-case.json"
DERIVED = (SCORE_SUFFIX, UTILITY_SUFFIX, VERIFIED_SUFFIX, WORST_CASE_SUFFIX)
FORMER_FILES = ("worst.leak.json", "worst-case.json")
"""Derived files of earlier versions, which are no records either."""


def record_path(results: Path, record: Record) -> Path:
    """The file of a record: its path names the cell."""
    names = record.defense_name, record.attack_name
    return cell_path(results, record.task, *names, record.seed)


def cell_path(results: Path, task: str, defense: str, attack: str, seed: int) -> Path:
    """`<results>/<suite>/<task>/<defense>/<attack>.s<seed>.json`, odd characters quoted."""
    parts = [*task.split("/"), defense, f"{attack}.s{seed}{RECORD_SUFFIX}"]
    return results.joinpath(*map(file_name, parts))


def utility_path(results: Path, task: str, defense: str, seed: int) -> Path:
    """`<results>/<suite>/<task>/<defense>/s<seed>.utility.json`, beside the attacks on it."""
    parts = [*task.split("/"), defense, f"s{seed}{UTILITY_SUFFIX}"]
    return results.joinpath(*map(file_name, parts))


def worst_case_path(folder: Path, seed: int) -> Path:
    """`s<seed>.worst-case.json`, beside the records of a task under a defense."""
    return folder / f"s{seed}{WORST_CASE_SUFFIX}"


def score_path(path: Path) -> Path:
    """The score file beside a record file."""
    return path.with_name(path.name.removesuffix(RECORD_SUFFIX) + SCORE_SUFFIX)


def record_files(results: Path) -> Iterator[Path]:
    """All record files below a results directory, in a stable order."""
    for path in sorted(results.rglob(f"*{RECORD_SUFFIX}")):
        derived = path.name.endswith(DERIVED)
        other = derived or path.name in FORMER_FILES or path.name.startswith(".")
        if not other:
            yield path


def read_records(
    paths: Iterable[Path], kind: type[Model], quietly: bool = False
) -> Iterator[tuple[Path, Model]]:
    """The files that can be read; each of the others is left out, and named once or `quietly`."""
    for path in paths:
        try:
            yield path, read_model(path, kind)
        except UserError as error:
            if not quietly and path not in _left_out:
                print(printable(f"left out {error}"), file=sys.stderr)
            _left_out.add(path)


_left_out: set[Path] = set()
"""Files that this process has named."""


def fresh_score(path: Path) -> Score | None:
    """The score of a record file as it is now; None where there is none that can be read."""
    beside = score_path(path)
    try:
        score = read_model(beside, Score) if beside.exists() else None
    except UserError:
        return None  # `leakboard score` makes it again
    return score if score and score.record_digest == file_digest(path) else None


def worst_case_files(results: Path) -> Iterator[Path]:
    """All worst cases below a results directory, in a stable order."""
    for path in sorted(results.rglob(f"*{WORST_CASE_SUFFIX}")):
        if not path.name.startswith("."):
            yield path


def utility_files(results: Path) -> Iterator[Path]:
    """All utility records below a results directory, in a stable order."""
    for path in sorted(results.rglob(f"*{UTILITY_SUFFIX}")):
        if not path.name.startswith("."):
            yield path
