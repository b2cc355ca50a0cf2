"""The strict result schema: one JSON record per cell, one score file beside it.

A record holds what was run and what came back; a score file holds the metrics computed from it.
Both refuse unknown keys and numbers written as strings, and both are written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmark.errors import UserError
from benchmark.spec import Scalar

SCHEMA_VERSION = 1
RECORD_SUFFIX = ".json"
SCORE_SUFFIX = ".score.json"
UTILITY_SUFFIX = ".utility.json"
LEAK_FILE = "worst.leak.json"

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TokenId = Annotated[int, Field(ge=0)]
Parameters = dict[str, bool | int | float | str]


class Status(StrEnum):
    """How a cell, or one snapshot of it, ended."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    INVALID = "invalid"


class Strict(BaseModel):
    """Frozen, no extra keys, no coercion of strings into numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SnapshotResult(Strict):
    """What an attack returned for one snapshot."""

    index: Annotated[int, Field(ge=0)]
    digest: str
    """Digest over the inputs of the snapshot that was attacked."""
    status: Status
    reason: str = ""
    seconds: Seconds | None = None
    joint: bool = False
    """Whether the seconds are an equal share of a joint run over several snapshots."""
    sentences: list[list[TokenId]] = []
    texts: list[str] = []
    """The sentences decoded without special tokens."""
    token_types: list[TokenId] | None = None
    note: str = ""


class Provenance(Strict):
    """Everything needed to repeat the cell."""

    fingerprint: str
    """Digest over task, model, corpus, attack, defense and seed; a cached cell must match it."""
    attack_digest: str
    defense_digest: str
    git_commit: str
    git_dirty: bool
    packages: dict[str, str]
    python: str
    platform: str
    processor: str
    cores: int
    memory_gb: FiniteFloat
    device: str
    threads: int
    tf32: bool
    sandbox: str
    """What kept the submission from the truth and the network."""
    created: datetime
    """UTC."""


class Measured(Strict):
    """What every result says: which task and defense it is of, how it ended, where it was made."""

    schema_version: Literal[1] = 1
    suite: str
    task: str
    task_version: int
    defense: str
    defense_parameters: Parameters = {}
    defense_variant: str = ""
    """The name that the submission itself gives to these parameters, if it does."""
    seed: int
    status: Status
    reason: str = ""
    peak_mb: FiniteFloat | None = None
    device_peak_mb: FiniteFloat | None = None
    bytes_up: FiniteFloat | None = None
    """Mean bytes a client sends in a round under this defense."""
    epsilon: FiniteFloat | None = None
    provenance: Provenance

    @property
    def defense_name(self) -> str:
        """The defense as it is called everywhere: its variant's name, or with its parameters."""
        return self.defense_variant or variant(self.defense, self.defense_parameters)


class Record(Measured):
    """One cell: a task, an attack and a defense with their parameters, and a seed."""

    attack: str
    attack_parameters: Parameters = {}
    attack_variant: str = ""
    snapshots: list[SnapshotResult] = []
    prepare_seconds: Seconds | None = None

    @property
    def attack_name(self) -> str:
        """The attack likewise."""
        return self.attack_variant or variant(self.attack, self.attack_parameters)


class UtilityRecord(Measured):
    """One training of a task's model with the updates of a defense, and what became of it."""

    metrics: dict[str, FiniteFloat] = {}
    """The task's utility metrics on the test split."""
    validation: list[FiniteFloat] = []
    """Validation loss before training and at each check of it."""
    rounds: int | None = None
    """Updates that were sent; fewer than the budget where training ended early."""
    step_seconds: Seconds | None = None
    """Mean time in which the client made an update."""


class MetricValue(Strict):
    """Mean over the task's snapshots with a bootstrap interval."""

    mean: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    n: int
    values: list[FiniteFloat]
    """One value per snapshot, in order of the snapshots; a failed snapshot counts as 0."""


class Example(Strict):
    """A private sentence beside what was recovered of it, for readers of the leaderboard."""

    index: int
    truth: str
    recovered: str


class Score(Strict):
    """The metrics of one record."""

    schema_version: Literal[1] = 1
    record_digest: str
    """sha256 of the record file that was scored; a changed record needs scoring again."""
    scorer_digest: str = ""
    """Of the code of the metrics; changed metrics need scoring again."""
    metrics: dict[str, MetricValue]
    examples: list[Example] = []


class Worst(Strict):
    """The largest value that any attack reached."""

    attack: str
    seed: int
    value: MetricValue
    rivals: int
    """How many attacks were tried."""


class LeakRecord(Strict):
    """What a defense leaves on a task: the worst case over all attacks that were scored."""

    schema_version: Literal[1] = 1
    task: str
    task_version: int
    defense: str
    """With its parameters, as it is called everywhere."""
    worst: dict[str, Worst]
    """By recovery metric."""


Model = TypeVar("Model", bound=Strict)


def variant(name: str, parameters: Mapping[str, Scalar]) -> str:
    """`name[key=value,...]`: a submission with the parameters that differ from its defaults."""
    if not parameters:
        return name
    if "+" in name:  # a combination, whose parameters bear the name of their part
        return "+".join(variant(n, part_parameters(n, parameters)) for n in name.split("+"))
    return f"{name}[{','.join(f'{key}={value}' for key, value in sorted(parameters.items()))}]"


def part_parameters(part: str, parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The parameters of one part of a combination, `<part>.<key>`, without its name."""
    start = f"{part}."
    return {k.removeprefix(start): v for k, v in parameters.items() if k.startswith(start)}


def record_path(results: Path, record: Record) -> Path:
    """The file of a record: its path names the cell."""
    names = record.defense_name, record.attack_name
    return cell_path(results, record.task, *names, record.seed)


def cell_path(results: Path, task: str, defense: str, attack: str, seed: int) -> Path:
    """`<results>/<suite>/<task>/<defense>/<attack>.s<seed>.json`, odd characters quoted."""
    parts = [*task.split("/"), defense, f"{attack}.s{seed}{RECORD_SUFFIX}"]
    return results.joinpath(*(quote(part, safe="[]=,+") for part in parts))


def utility_path(results: Path, task: str, defense: str, seed: int) -> Path:
    """`<results>/<suite>/<task>/<defense>/s<seed>.utility.json`, beside the attacks on it."""
    parts = [*task.split("/"), defense, f"s{seed}{UTILITY_SUFFIX}"]
    return results.joinpath(*(quote(part, safe="[]=,+") for part in parts))


def score_path(path: Path) -> Path:
    """The score file beside a record file."""
    return path.with_name(path.name.removesuffix(RECORD_SUFFIX) + SCORE_SUFFIX)


def write_atomically(path: Path, text: str) -> None:
    """Write beside the target, sync, rename: a reader sees the old file or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            os.chmod(temporary, 0o644)  # mkstemp's own mode is for secrets
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write(path: Path, model: Strict) -> None:
    """Store a record or a score."""
    write_atomically(path, model.model_dump_json(indent=1) + "\n")


def read(path: Path, kind: type[Model]) -> Model:
    """Load a record or a score; anything off is one sentence with the file's name."""
    try:
        return kind.model_validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValidationError, json.JSONDecodeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error)}
        where = ".".join(str(part) for part in first.get("loc", ()))
        raise UserError(
            f"{path} is not a valid {kind.__name__.lower()}: {where or 'file'}: {first['msg']}; "
            "delete it and run the cell again."
        ) from error


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def record_files(results: Path) -> Iterator[Path]:
    """All record files below a results directory, in a stable order."""
    for path in sorted(results.rglob(f"*{RECORD_SUFFIX}")):
        suffixes = (SCORE_SUFFIX, UTILITY_SUFFIX, LEAK_FILE)
        other = path.name.endswith(suffixes) or path.name.startswith(".")
        if not other:
            yield path


def utility_files(results: Path) -> Iterator[Path]:
    """All utility records below a results directory, in a stable order."""
    for path in sorted(results.rglob(f"*{UTILITY_SUFFIX}")):
        if not path.name.startswith("."):
            yield path
