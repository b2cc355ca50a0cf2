"""The files of a job on their way to a node: known by digest, and public ones sent only once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmark.execution.jobs import Job
from benchmark.files import file_digest

PIECE = 64 << 20
"""Bytes of a file that travel together."""


@dataclass(frozen=True)
class ShippedFile:
    """One file of a job, as the machine of the harness has it."""

    name: str
    """In the inbox of the job."""
    path: str
    """Where it lies: read from there on a node that has the same cache."""
    sha256: str
    size: int
    public: bool
    """Weights and observed updates stay on a node for its next jobs; private text does not."""


@dataclass(frozen=True)
class Parcel:
    """A job as it travels: what crosses is text, numbers and files, never code."""

    work: str
    files: tuple[ShippedFile, ...]
    time_limit: float
    memory_limit_mb: float


class Packer:
    """Makes parcels of jobs; a file that has not changed is hashed once."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, int, int, int], str] = {}

    def pack(self, job: Job) -> Parcel:
        """Everything that a node needs for a job."""
        files = tuple(self._files(job))
        return Parcel(job.work.model_dump_json(), files, job.time_limit, job.memory_limit_mb)

    def _files(self, job: Job) -> Iterator[ShippedFile]:
        for name, source in job.files.items():
            public = not job.work.sees_private or name == "model"
            for inner, path in _each_file(name, source):
                size = path.stat().st_size
                yield ShippedFile(inner, str(path), self._digest(path), size, public)

    def _digest(self, path: Path) -> str:
        state = path.stat()
        key = (str(path), state.st_ino, state.st_size, state.st_mtime_ns)
        if key not in self._digests:
            self._digests[key] = file_digest(path)
        return self._digests[key]


def _each_file(name: str, source: Path) -> Iterator[tuple[str, Path]]:
    """A file, or all files of a folder, with their names in the inbox."""
    if not source.is_dir():
        yield name, source.resolve()
        return
    for place, _, names in os.walk(source, followlinks=True):
        for file in sorted(names):
            path = Path(place, file)
            yield f"{name}/{path.relative_to(source).as_posix()}", path.resolve()


def pieces_of(path: Path) -> Iterator[bytes]:
    """A file's bytes, in pieces that fit into memory."""
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            yield piece


class DamagedFile(Exception):
    """What arrived is not what was sent."""


class NodeFiles:
    """Files that have reached a node. Public ones are shared by its slots and kept."""

    def __init__(self, folder: Path, shared_cache: Path | None) -> None:
        self.folder = folder
        self.shared_cache = shared_cache
        """The cache, where the harness has the same one: its files need not travel."""
        self._checked: set[str] = set()

    def lacks(self, file: ShippedFile) -> bool:
        """Whether a file has to be sent; one that lies here is checked before its first use."""
        path = self.path(file)
        if path is None:
            return True
        if str(path) not in self._checked:
            if file_digest(path) != file.sha256:
                return True
            self._checked.add(str(path))
        return False

    def path(self, file: ShippedFile) -> Path | None:
        """Where a file lies that need not be sent."""
        source = Path(file.path)
        if self.shared_cache and source.is_relative_to(self.shared_cache) and source.is_file():
            return source
        kept = self.folder / file.sha256
        return kept if file.public and kept.is_file() else None

    def keep(self, file: ShippedFile, pieces: Iterable[bytes]) -> None:
        """Store a public file that was sent."""
        write_checked_pieces(self.folder / file.sha256, file, pieces)

    def unpack(
        self, parcel: Parcel, private: Mapping[str, Iterable[bytes]], folder: Path
    ) -> dict[str, Path]:
        """Where each file of a job lies; private ones that were sent are in the job's `folder`."""
        found = {}
        for number, file in enumerate(parcel.files):
            if file.name in private:
                target = folder / str(number)
                write_checked_pieces(target, file, private[file.name])
                found[file.name] = target
            else:
                found[file.name] = self._at_hand(file)
        return found

    def _at_hand(self, file: ShippedFile) -> Path:
        path = self.path(file)
        if path is None:
            raise DamagedFile(f"{file.name} has not arrived")
        return path


def write_checked_pieces(target: Path, file: ShippedFile, pieces: Iterable[bytes]) -> None:
    """Write a file that takes its place only if it has the digest that was told."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with temporary.open("wb") as stream:
            for piece in pieces:
                digest.update(piece)
                stream.write(piece)
        if digest.hexdigest() != file.sha256:
            raise DamagedFile(f"{file.name} arrived with another digest than it was sent with")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_pieces(folder: Path, name: str, piece: bytes) -> None:
    """Append to a file that a job made; the name is that of a file in this very folder."""
    if Path(name).name != name:
        raise DamagedFile(f"a job made a file called {name!r}")
    with (folder / name).open("ab") as stream:
        stream.write(piece)
