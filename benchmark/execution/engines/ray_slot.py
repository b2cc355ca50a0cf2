"""What runs on a node of a Ray cluster: one local slot, and the files that have reached the node.

An attack's slot is given what the same job would find on one machine, and nothing else: the truth
is never sent, and private files of a defense's job are removed when that job ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import ray
from pydantic import Field, TypeAdapter

from benchmark.execution import events
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.engines.nodes import NodeFacts, own_facts
from benchmark.execution.engines.shipping import NodeFiles, Parcel, ShippedFile, pieces_of
from benchmark.execution.jobs import Job, Outcome, Work
from benchmark.ownership import claim_folder, release_folder, release_shared, share_folder
from benchmark.paths import cache_directory

PROGRESS_SECONDS = 0.2
"""How often a job's progress is worth a message."""
WORK: TypeAdapter[Work] = TypeAdapter(Annotated[Work, Field(discriminator="kind")])


@dataclass(frozen=True)
class SlotSettings:
    """What a slot has to know of the run."""

    run: str
    """Names the run: its slots on one node share files."""
    on_gpu: bool
    threads: int
    hidden: tuple[str, ...]
    """Folders of the harness's machine that no submission may read, if they are here, too."""
    cache: str
    """The harness's."""
    submissions: str
    """Where submissions lie beside ours."""


@dataclass(frozen=True)
class Progressed:
    """How far the job is, as the worker said it."""

    line: str


@dataclass(frozen=True)
class MadePiece:
    """A part of a file that the job made."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Ended:
    """How the job ended; everything that it made has been sent before."""

    status: str
    reason: str
    said: tuple[str, ...]
    log: str
    device: str
    lost: bool


Message = Progressed | MadePiece | Ended


class RaySlot:
    """An actor that runs one job at a time in a sandbox of its node."""

    def __init__(self, settings: SlotSettings) -> None:
        os.environ["LEAKBOARD_SUBMISSIONS"] = settings.submissions
        with contextlib.suppress(OSError):  # Ray's workers step back, and cells are timed
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        cache = cache_directory()
        device = f"cuda:{ray.get_gpu_ids()[0]}" if settings.on_gpu else "cpu"
        hidden = [Path(path) for path in (*settings.hidden, settings.cache)]
        self.shared = share_folder(cache / "shipped", settings.run)
        self.private = claim_folder(cache / "jobs")
        same = cache if settings.cache == str(cache) else None
        self.files = NodeFiles(self.shared, same)
        self.engine = LocalEngine([device], settings.threads, hidden)
        self.engine.__enter__()

    def facts(self) -> NodeFacts:
        """What this node is, before it is given anything."""
        return own_facts()

    def lacking(self, files: Sequence[ShippedFile]) -> list[str]:
        """Names of the files that have to be sent."""
        return [file.name for file in files if self.files.lacks(file)]

    def keep(self, file: ShippedFile, pieces: Sequence[ray.ObjectRef[bytes]]) -> None:
        """Take in a public file."""
        self.files.keep(file, map(ray.get, pieces))

    def run(
        self, parcel: Parcel, private: Mapping[str, Sequence[ray.ObjectRef[bytes]]]
    ) -> Iterator[Message]:
        """Run a job; yields its progress, then what it made, then how it ended."""
        folder = Path(tempfile.mkdtemp(dir=self.private))
        try:
            sent = {name: map(ray.get, pieces) for name, pieces in private.items()}
            files = self.files.unpack(parcel, sent, folder)
            work = WORK.validate_json(parcel.work)
            job = Job(work, files, parcel.time_limit, parcel.memory_limit_mb)
            yield from self._messages(job)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _messages(self, job: Job) -> Iterator[Message]:
        received: queue.Queue[Any] = queue.Queue()
        self.engine.progress = Throttled(received).progressed
        threading.Thread(target=self._one, args=(job, received), daemon=True).start()
        while isinstance(news := received.get(), Progressed):
            yield news
        if isinstance(news, BaseException):
            raise news
        outcome: Outcome = news
        try:
            for path in sorted(outcome.made.iterdir()):
                for piece in pieces_of(path) if path.stat().st_size else [b""]:
                    yield MadePiece(path.name, piece)
        finally:
            shutil.rmtree(outcome.made, ignore_errors=True)
        said = tuple(event.model_dump_json() for event in outcome.said)
        status, reason, log = str(outcome.status), outcome.reason, outcome.log
        yield Ended(status, reason, said, log, outcome.device, outcome.lost)

    def _one(self, job: Job, received: queue.Queue[Any]) -> None:
        try:
            received.put(self.engine.one(job))
        except BaseException as error:
            received.put(error)

    def close(self) -> None:
        """End the job, if there is one, and remove the folders of this slot."""
        with contextlib.suppress(Exception):
            self.engine.__exit__(KeyboardInterrupt, None, None)
        release_folder(self.private)
        release_shared(self.shared)


class Throttled:
    """Passes on how far a job is, a few times a second at most."""

    def __init__(self, received: queue.Queue[Any]) -> None:
        self.received, self.last = received, 0.0

    def progressed(self, job: Job, event: events.Progress) -> None:
        now = time.monotonic()
        if now - self.last > PROGRESS_SECONDS or event.step == event.steps:
            self.last = now
            self.received.put(Progressed(event.model_dump_json()))
