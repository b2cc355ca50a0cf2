"""An index of the records of a results folder: a large plan is resumed without reading them all.

It is kept in the folder and only ever saves time: what it holds of a file counts while the file has
the size and the time of change that it had, and an index that cannot be read is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from benchmark.errors import UserError
from benchmark.files import (
    FiniteFloat,
    Model,
    OtherVersion,
    Strict,
    read_model,
    write_atomically,
)
from benchmark.results.schema import Measured, Status

FILE = ".index.json"
MOST_READ = 100
"""New files beyond which it is worth writing the index again."""


class Summary(NamedTuple):
    """What a plan has to know of a record."""

    changed: int
    """Time of change of the file, in nanoseconds."""
    size: int
    status: Status
    fingerprint: str
    seconds: FiniteFloat
    """What the cell took."""


class StoredIndex(Strict):
    """The index as a file."""

    schema_version: Literal[1] = 1
    files: dict[str, Summary] = {}
    """By path, relative to the results folder."""


class RecordIndex:
    """Looks up the records of a results folder; new ones are read once."""

    def __init__(self, results: Path) -> None:
        self._folder = str(results)
        self._path = results / FILE
        self._read = 0
        try:
            self._files = read_model(self._path, StoredIndex).files
        except UserError:
            self._files = {}

    def look_up(
        self, path: Path, kind: type[Model], seconds: Callable[[Model], float]
    ) -> Summary | None:
        """The summary of a record file; None where there is none that can be read."""
        try:
            state = os.stat(path)
        except OSError:
            return None
        name = os.path.relpath(path, self._folder)
        known = self._files.get(name)
        if known and (known.changed, known.size) == (state.st_mtime_ns, state.st_size):
            return known
        found = summarize(path, kind, seconds, state)
        if found is not None:
            self._files[name] = found
            self._read += 1
        return found

    def save(self) -> None:
        """Keep what was read for the next time, if it was much."""
        if self._read >= MOST_READ:
            with suppress(OSError):  # a folder that cannot be written is read the longer way
                write_atomically(self._path, StoredIndex(files=self._files).model_dump_json())


def summarize(
    path: Path, kind: type[Model], seconds: Callable[[Model], float], state: os.stat_result
) -> Summary | None:
    """What a record file holds of interest; one that cannot be read is as good as none.

    Raises:
        OtherVersion: another version of Leakboard wrote it, whose work is not to be run over.
    """
    try:
        record = read_model(path, kind)
    except OtherVersion:
        raise
    except UserError:
        return None
    assert isinstance(record, Measured)
    fingerprint = record.provenance.fingerprint
    place = state.st_mtime_ns, state.st_size
    return Summary(*place, record.status, fingerprint, seconds(record))
