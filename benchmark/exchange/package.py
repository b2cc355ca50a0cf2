"""A submission's results as one file: a plain JSON document, read with bounds.

It holds no paths and no code. Where its records are filed follows from what stands in them,
and only where that is a cell of the official plan.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from benchmark.errors import UserError
from benchmark.exchange.official import OfficialPlan
from benchmark.files import FiniteFloat, Strict, Text, read_model, write_model
from benchmark.plugins.registry import Kind
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.schema import Record, UtilityRecord
from benchmark.runs.provenance import origin

MOST_BYTES = 64 * 2**20
MOST_RECORDS = 5_000
SUFFIX = ".leakboard.json"


class Environment(Strict):
    """The machine and the versions that the records were packed with."""

    python: Text
    platform: Text
    processor: Text
    cores: Annotated[int, Field(ge=1, le=10**6)]
    memory_gb: Annotated[FiniteFloat, Field(ge=0, le=1e6)]
    sandbox: Text
    packages: Annotated[dict[Text, Text], Field(max_length=100)]
    git_commit: Text
    git_dirty: bool


class SubmissionPackage(Strict):
    """What `leakboard submit` writes and `leakboard import` reads."""

    format: Literal[1] = 1
    kind: Kind
    submission: Text
    """Its name, or that of a variant of it."""
    source_digest: Text
    """sha256 over its source and the shared building blocks that it imports."""
    suite: Text
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    created: datetime
    environment: Environment
    records: Annotated[list[Record], Field(max_length=MOST_RECORDS)]
    utility: Annotated[list[UtilityRecord], Field(max_length=MOST_RECORDS)] = []


def pack(
    submission: ConfiguredSubmission, plan: OfficialPlan, suite: str, seed: int
) -> SubmissionPackage:
    """The records of a plan that has been run."""
    return SubmissionPackage(
        kind=submission.entry.kind,
        submission=submission.name,
        source_digest=submission.entry.digest,
        suite=suite,
        seed=seed,
        created=datetime.now(UTC).replace(microsecond=0),
        environment=_environment(),
        records=[read_model(cell.path, Record) for cell in plan.cells],
        utility=[read_model(trial.path, UtilityRecord) for trial in plan.trials],
    )


def _environment() -> Environment:
    found = origin("", "", "", "cpu", 1)
    kept = {name: getattr(found, name) for name in Environment.model_fields}
    return Environment.model_validate(kept)


def write_package(path: Path, package: SubmissionPackage) -> None:
    """Store a package; refuse one that nobody could import."""
    write_model(path, package)
    if path.stat().st_size > MOST_BYTES:
        path.unlink()
        raise UserError(
            f"The package would be larger than {MOST_BYTES >> 20} MiB; have the attack return "
            "fewer sentences."
        )


def read_package(path: Path) -> SubmissionPackage:
    """A package of somebody else's: its size, its form and every number within bounds."""
    found = path.stat()
    if not S_ISREG(found.st_mode):
        raise UserError(f"{path} is no regular file; name a file that `leakboard submit` wrote.")
    if found.st_size > MOST_BYTES:
        raise UserError(
            f"{path} has {found.st_size >> 20} MiB, more than the {MOST_BYTES >> 20} MiB that a "
            "package may have."
        )
    try:
        return SubmissionPackage.model_validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the file"
        raise UserError(
            f"{path} is not a valid package: {where}: {first['msg']}; pack it again with "
            "`leakboard submit`."
        ) from error


def commands(plan: OfficialPlan, name: str, suite: str, seed: int, results: str) -> list[str]:
    """What to run elsewhere: a line for each group of cells that can be named together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in plan.cells:
        task = cell.task.name.partition("/")[2]
        groups.setdefault((cell.attack.name, cell.defense.name), []).append(task)
    start = f"leakboard run --suite {suite} --seed {seed} --results {results}"
    lines = [
        f"{start} --attack {_quoted(attack)} --defense {_quoted(defense)} --task {','.join(tasks)}"
        for (attack, defense), tasks in groups.items()
    ]
    lines += [
        f"{start} --utility --defense {_quoted(name)} --task {task}"
        for task in dict.fromkeys(trial.task.name.partition("/")[2] for trial in plan.trials)
    ]
    return lines


def _quoted(name: str) -> str:
    return json.dumps(name) if set(name) & set("[]*?+") else name


def default_file(name: str, suite: str, seed: int) -> Path:
    """What a package is called where nothing else is asked for."""
    plain = "".join(c if c.isalnum() or c in "_-." else "_" for c in name)
    return Path(f"{plain}-{suite}-s{seed}{SUFFIX}")
