"""Joins results of several machines: each cell once, and nothing that contradicts itself.

Everything is read and compared before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.files import file_digest, read_model, write_atomically
from benchmark.results.schema import Measured, Record, Status, UtilityRecord
from benchmark.results.store import (
    fresh_score,
    record_files,
    record_path,
    score_path,
    utility_files,
    utility_path,
)
from benchmark.results.verification import read_mark, verification_path
from benchmark.results.withholding import withhold

TIME_AND_PLACE: dict[str, Any] = {
    "peak_mb": True,
    "device_peak_mb": True,
    "prepare_seconds": True,
    "step_seconds": True,
    "snapshots": {"__all__": {"seconds", "stopped_by_clock"}},
    "provenance": {
        "git_commit", "git_dirty", "packages", "python", "platform", "processor", "cores",
        "memory_gb", "device", "threads", "tf32", "sandbox", "created",
    },
}  # fmt: skip
"""What two records of one cell may differ in."""
DONE = (Status.OK, Status.UNSUPPORTED)


@dataclass(frozen=True)
class Found:
    """One record file."""

    path: Path
    record: Measured


def merge(folders: Sequence[Path], out: Path) -> int:
    """Join results below `out`, which may have some already; returns how many cells it has then.

    Raises:
        UserError: a file cannot be read, lies under another cell's name, or contradicts another.
    """
    known = [out] if out.is_dir() else []
    problems: list[str] = []
    kept: dict[Path, Found] = {}
    for folder in dict.fromkeys([*known, *folders]):
        for name, found in _read(folder, problems):
            try:
                kept[name] = _choose(kept.get(name), found)
            except UserError as error:
                problems.append(str(error))
    if problems:
        more = f" And {len(problems) - 1} more such files." if len(problems) > 1 else ""
        raise UserError(f"{problems[0]}{more} Nothing was written.")
    _write(kept, out)
    return len(kept)


def _read(folder: Path, problems: list[str]) -> Iterator[tuple[Path, Found]]:
    """All records of a folder by their place in it; what is wrong with others is noted."""
    files: list[tuple[Path, type[Record | UtilityRecord]]]
    files = [(path, Record) for path in record_files(folder)]
    files += [(path, UtilityRecord) for path in utility_files(folder)]
    for path, kind in files:
        try:
            record = read_model(path, kind)
        except UserError as error:
            problems.append(str(error))
            continue
        place = _place(folder, record)
        if path != place:
            problems.append(f"{path} holds the cell of {place}; put it there or delete it.")
        yield path.relative_to(folder), Found(path, record)


def _place(folder: Path, record: Measured) -> Path:
    if isinstance(record, Record):
        return record_path(folder, record)
    return utility_path(folder, record.task, record.defense_name, record.seed)


def _choose(first: Found | None, second: Found) -> Found:
    """Of two records of one cell the first, if they agree; one that is done replaces a failure."""
    if first is None:
        return second
    done = [found for found in (first, second) if found.record.status in DONE]
    if len(done) == 1:
        return done[0]
    if not done or _content(first.record) == _content(second.record):
        return first
    published = [found for found in (first, second) if _withheld(found.record)]
    if len(published) == 1 and _agree(first.record, second.record):
        return second if published[0] is first else first
    what = ", ".join(_differences(_content(first.record), _content(second.record)))
    raise UserError(
        f"{first.path} and {second.path} are the same cell with different results ({what}); "
        "run it once more, and delete the wrong one."
    )


def _withheld(record: Measured) -> str:
    return record.withheld if isinstance(record, Record) else ""


def _agree(first: Measured, second: Measured) -> bool:
    """Whether one record is the other, published without what was recovered."""
    withheld = [withhold(record) for record in (first, second) if isinstance(record, Record)]
    return len(withheld) == 2 and _content(withheld[0]) == _content(withheld[1])


def _content(record: Measured) -> dict[str, object]:
    return record.model_dump(exclude=TIME_AND_PLACE)


def _differences(first: Mapping[str, object], second: Mapping[str, object]) -> Iterable[str]:
    return [name for name in first if first[name] != second.get(name)]


def _write(kept: Mapping[Path, Found], out: Path) -> None:
    """Records as they are, and what was computed of these very files beside them."""
    for name, found in kept.items():
        target = out / name
        if found.path != target:
            write_atomically(target, found.path.read_text(encoding="utf-8"))
        for beside, keep in (
            (score_path, isinstance(found.record, Record) and fresh_score(found.path)),
            (verification_path, read_mark(found.path)),
        ):
            if keep and not _same(beside(found.path), beside(target)):
                write_atomically(beside(target), beside(found.path).read_text(encoding="utf-8"))


def _same(first: Path, second: Path) -> bool:
    return first == second or (second.exists() and file_digest(first) == file_digest(second))
