"""The fixed gradient snapshots: how they are stored, sealed, read and compared.

What an attacker may see lies under `snapshots/` in the cache, the private text behind it under
`truths/`. A snapshot is a safetensors file with a JSON sheet beside it. The sheet holds a digest
over everything that went in, the sha256 of the file, and a small numerical sketch of each tensor,
which tells "same within rounding" from "different" on another machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pydantic import ValidationError

from benchmark.errors import UserError
from benchmark.paths import cache_directory
from benchmark.records import (
    FiniteFloat,
    Model,
    Parameters,
    Strict,
    file_digest,
    write_atomically,
)
from benchmark.spec import Scalar, TrueSentence, Truth

if TYPE_CHECKING:
    import numpy as np

    from benchmark.spec import Batch

FORMAT = 1
SAME_WITHIN = 1e-3
"""Largest difference of a sketch entry, relative to the tensor's norm, that rounding explains."""
NEGLIGIBLE = 1e-4
"""Share of a snapshot's largest norm below which a tensor's own norm is no yardstick."""
WAVES = ((0.7548776662, 0.3), (2.5698402910, 1.1))
"""Frequency and phase of the fixed waves that tensors are projected on."""
CHUNK = 1 << 20


class Sheet(Strict):
    """What is known of one snapshot, short of the private text."""

    format: Literal[1] = 1
    task: str
    task_version: int
    defense: str
    defense_parameters: Parameters
    seed: int
    index: int
    digest: str
    """Over token ids, model weights, task settings, defense and its parameters, seed and index."""
    file_sha256: str
    update_kind: Literal["gradient", "difference"]
    local_steps: int
    learning_rate: FiniteFloat
    noise_scale: FiniteFloat | None
    epsilon: FiniteFloat | None
    bytes_up: int
    roles: dict[str, str]
    """Parameter name of each role that the model has."""
    sketch: dict[str, list[FiniteFloat]]
    """For each shared parameter: its norm and its projections on two fixed waves."""


class StoredTruth(Strict):
    """One private batch, as kept on the defender's side."""

    format: Literal[1] = 1
    task: str
    task_digest: str
    """Of the definition, weights and corpus that the batch was drawn with."""
    seed: int
    index: int
    batch_digest: str
    sentences: list[dict[str, Any]]
    labels: list[int] | None
    lengths: list[int]

    def truth(self) -> Truth:
        """As the scorer wants it."""
        return Truth(
            tuple(
                TrueSentence(tuple(s["token_ids"]), s["text"], s["label"], tuple(s["entities"]))
                for s in self.sentences
            )
        )


def dump_sentences(truth: Truth) -> list[dict[str, Any]]:
    """Sentences as JSON-ready data, the inverse of `StoredTruth.truth`."""
    return [json.loads(json.dumps(asdict(sentence))) for sentence in truth.sentences]


class Comparison(StrEnum):
    """How two sketches of one snapshot relate."""

    IDENTICAL = "identical"
    ROUNDING = "same within rounding"
    DIFFERENT = "different"


# ---------------------------------------------------------------------------------------- places


def snapshot_path(task: str, defense: str, seed: int, index: int) -> Path:
    """Where a snapshot's tensors lie; its sheet has the same name and ends in `.json`."""
    name = quote(defense, safe="[]=,+")
    folder = cache_directory() / "snapshots" / task / name / f"s{seed}"
    return folder / f"{index:03d}.safetensors"


def truth_path(task: str, seed: int, index: int) -> Path:
    """Where the private batch behind a snapshot lies."""
    return cache_directory() / "truths" / task / f"s{seed}" / f"{index:03d}.json"


# --------------------------------------------------------------------------------------- digests


def batch_digest(batch: Batch) -> str:
    """Over the token ids, the mask and the labels of a batch."""
    digest = hashlib.sha256()
    for tensor in (batch.input_ids, batch.attention_mask, batch.labels):
        digest.update(f"{tuple(tensor.shape)}".encode())
        digest.update(tensor.long().contiguous().numpy().tobytes())
    return digest.hexdigest()


def inputs_digest(
    batch: str, task: str, defense: str, parameters: Mapping[str, Scalar], seed: int, index: int
) -> str:
    """Over everything that determines a snapshot; `task` and `defense` are digests themselves."""
    parts = [FORMAT, batch, task, defense, sorted(parameters.items()), seed, index]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def number_from(*parts: Any) -> int:
    """A seed below 2^63 from anything that prints the same everywhere."""
    text = json.dumps([str(part) for part in parts])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


# ---------------------------------------------------------------------------------------- sketch


def sketch_file(path: Path) -> dict[str, list[float]]:
    """Sketch of every tensor of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as tensors:
        return {name: sketch(tensors.get_tensor(name)) for name in sorted(tensors.keys())}


def sketch(tensor: np.ndarray[Any, Any]) -> list[float]:
    """Norm and projections on the fixed waves, in double precision, a chunk at a time.

    A wave that starts later is the same wave turned, so one table serves every chunk.
    """
    import numpy as np

    flat = tensor.reshape(-1)
    square, sums = 0.0, [0.0] * len(WAVES)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK].astype(np.float64)
        square += _dot(part, part)
        for number, (frequency, phase) in enumerate(WAVES):
            cosine, sine = _table(frequency)
            angle = frequency * start + phase
            sums[number] += _dot(part, cosine[: part.size]) * math.cos(angle)
            sums[number] -= _dot(part, sine[: part.size]) * math.sin(angle)
    return [float(f"{value:.9e}") for value in (math.sqrt(square), *sums)]


def _dot(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> float:
    """Without the linear algebra library, whose threads cost more than they bring here."""
    import numpy as np

    return float(np.einsum("i,i->", first, second))


@cache
def _table(frequency: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    import numpy as np

    angles = frequency * np.arange(CHUNK, dtype=np.float64)
    return np.cos(angles), np.sin(angles)


def compare(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> Comparison:
    """Whether two sketches speak of the same tensors."""
    if first.keys() != second.keys():
        return Comparison.DIFFERENT
    largest = max((numbers[0] for numbers in (*first.values(), *second.values())), default=0.0)
    floor = NEGLIGIBLE * largest
    worst = max((_distance(first[name], second[name], floor) for name in first), default=0.0)
    if worst == 0.0:
        return Comparison.IDENTICAL
    return Comparison.ROUNDING if worst <= SAME_WITHIN else Comparison.DIFFERENT


def _distance(first: Sequence[float], second: Sequence[float], floor: float) -> float:
    """Largest difference relative to the norm, or to `floor` where the tensor is next to nothing.

    Some gradients are zero but for rounding, such as that of an attention's key bias.
    """
    scale = max(first[0], second[0], floor)
    if scale == 0.0:
        return 0.0
    return max(abs(a - b) for a, b in zip(first, second, strict=True)) / scale


# --------------------------------------------------------------------------- sealed JSON on disk


def write_sealed(path: Path, content: Strict) -> None:
    """Store a sheet with a sha256 of its own content."""
    body = content.model_dump(mode="json")
    sealed = body | {"seal": _seal(body)}
    write_atomically(path, json.dumps(sealed, indent=1) + "\n")


def read_sheet(path: Path) -> Sheet:
    """The sheet beside a snapshot file, its seal checked."""
    return _read_sealed(path.with_suffix(".json"), Sheet)


def read_truth(path: Path) -> StoredTruth:
    """A private batch, its seal checked."""
    return _read_sealed(path, StoredTruth)


def _read_sealed(path: Path, kind: type[Model]) -> Model:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        seal = body.pop("seal")
        if seal != _seal(body):
            raise ValueError("its seal does not match its content")
        return kind.model_validate_json(json.dumps(body), strict=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; run `leakboard snapshots build`.") from None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ValidationError) as error:
        why = str(error).splitlines()[0]
        raise damaged(path, why) from error


def damaged(path: Path, why: str) -> UserError:
    """A file that was edited or cut: named, and nothing is scored from it."""
    return UserError(
        f"{path} is damaged ({why}); delete it and run `leakboard snapshots build` again."
    )


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def check_file(path: Path, sheet: Sheet) -> None:
    """Refuse a snapshot whose tensors are not those that were sealed."""
    if not path.is_file():
        raise UserError(f"{path} is missing; run `leakboard snapshots build`.")
    if file_digest(path) != sheet.file_sha256:
        raise damaged(path, "its sha256 is not the one on its sheet")
