"""Checked JSON files: strict models with bounds, written atomically, read with one sentence for a
fault."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from benchmark.errors import UserError
from benchmark.ownership import PART, locked_file

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
LONGEST_NAME = 230
"""Bytes of a file's name; systems take 255, and a file in the making has a longer one."""
LARGEST_FILE = 64 << 20
"""Bytes of a record or a score; no honest one comes near."""
LONGEST_TEXT = 500
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
"""Of anything that pages and tables repeat."""
Value = bool | int | float | str
"""Of a parameter."""
Packages = Annotated[dict[Text, Text], Field(max_length=1000)]
"""Their versions by name."""


class Strict(BaseModel):
    """Frozen, no extra keys, no coercion of strings into numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=Strict)


@lru_cache(maxsize=4096)
def file_name(text: str) -> str:
    """Part of a path that names a task, a defense or an attack, odd characters quoted."""
    quoted = quote(text, safe="[]=,+")
    if len(quoted) > LONGEST_NAME:
        raise UserError(
            f"{text[:60]}… makes a file name of {len(quoted)} bytes, more than {LONGEST_NAME}; "
            "use shorter values or fewer parameters."
        )
    return quoted


def write_atomically(path: Path, text: str) -> None:
    """Write beside the target, sync, rename: a reader sees the old file or the new, never half."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = locked_file(path.parent, f".{path.name}.", PART)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                os.fchmod(handle, 0o644)  # a temporary file's own mode is for secrets
                stream.write(text)
                stream.flush()
                os.fsync(handle)
                temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of the file system that names no file, such as a full disk, is told of `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise
    except Exception as error:
        if "No space left" in str(error):  # as the library of safetensors says it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def write_model(path: Path, model: Strict) -> None:
    """Store a record or a score."""
    write_atomically(path, model.model_dump_json(indent=1) + "\n")


class OtherVersion(UserError):
    """A file that another version of Leakboard wrote: not damaged, so nothing takes its place."""


def read_model(path: Path, kind: type[Model]) -> Model:
    """Load a record or a score; anything off is one sentence with the file's name."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(
                f"{path} is not a valid {kind.__name__.lower()}: it has more than "
                f"{LARGEST_FILE >> 20} MiB; delete it and run the cell again."
            )
        return kind.model_validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValidationError, json.JSONDecodeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error)}
        where = ".".join(str(part) for part in first.get("loc", ()))
        if where == "schema_version" and isinstance(first["input"], int):
            raise OtherVersion(
                f"{path} is not a valid {kind.__name__.lower()} for this version of Leakboard: its "
                f"schema_version is {first['input']}; update Leakboard, or use another folder."
            ) from error
        raise UserError(
            f"{path} is not a valid {kind.__name__.lower()}: {where or 'file'}: {first['msg']}; "
            "delete it and run the cell again."
        ) from error


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_digest(path: Path) -> None:
    """Note the sha256 of a file in another one beside it."""
    write_atomically(_digest_path(path), file_digest(path) + "\n")


def has_digest(path: Path) -> bool:
    """Whether a file is there and has the sha256 that was noted when it was made."""
    try:
        return _digest_path(path).read_bytes().strip() == file_digest(path).encode()
    except OSError:
        return False


def remember(path: Path, text: str) -> None:
    """Keep in the cache what took some work, with a digest that tells when it has changed."""
    write_atomically(path, text)
    write_digest(path)


def remembered(path: Path) -> bytes:
    """What was kept so; what is not there or has changed is a `FileNotFoundError`."""
    if not has_digest(path):
        raise FileNotFoundError(path)
    return path.read_bytes()


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


# ------------------------------------------------------------------------------------ bounds
# No number and no text of a submission's own stops a run.

LONGEST_REASON = 1_000
LONGEST_NOTE = 10_000
MOST_STEPS = 10**9


def one_line(text: str, longest: int = LONGEST_REASON) -> str:
    """Text without line breaks and other control characters, cut where it is too long."""
    plain = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def _note(text: str) -> str:
    return one_line(text, LONGEST_NOTE)


def _name(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name holds control characters")
    return text


def _clamped(number: int) -> int:
    return min(max(number, 0), MOST_STEPS)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _short_texts(values: dict[str, Value]) -> dict[str, Value]:
    if any(isinstance(value, str) and len(value) > LONGEST_TEXT for value in values.values()):
        raise ValueError(f"a parameter has more than {LONGEST_TEXT} characters")
    return values


Parameters = Annotated[dict[Text, Value], AfterValidator(_short_texts)]
Seconds = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Megabytes = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Loss = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Index = Annotated[int, Field(ge=0, lt=10**6)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Reason = Annotated[str, AfterValidator(one_line)]
RecordedReason = Annotated[str, AfterValidator(lambda text: one_line(text, 2 * LONGEST_REASON))]
"""Of a record: a reason with what the harness has put before it."""
Name = Annotated[Text, AfterValidator(_name)]
"""Of a task, an attack or a defense, as pages show it hundreds of times."""
Note = Annotated[str, AfterValidator(_note)]
Steps = Annotated[int, AfterValidator(_clamped)]
"""Of a progress report, which is worth nothing but a line on a screen."""
ShownLoss = Annotated[float | None, AfterValidator(lambda x: None if x is None else _finite(x))]
"""Likewise; None where it is not finite."""
