"""The fixed gradient snapshots: how they are stored, checked and read.

What an attacker may see lies under `snapshots/` in the cache, the private text behind it under
`truths/`. A snapshot is a safetensors file with a JSON manifest beside it. The manifest holds a
digest over everything that went in, the sha256 of the file, and a sketch of each tensor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmark.errors import UserError
from benchmark.files import (
    FiniteFloat,
    Model,
    Parameters,
    Strict,
    file_digest,
    file_name,
    one_line,
    write_atomically,
)
from benchmark.paths import cache_directory
from benchmark.spec import Scalar, TrueSentence, Truth

if TYPE_CHECKING:
    from benchmark.spec import Batch


FORMAT = 2
"""Of manifests and truths; what was stored in another one counts as not there."""


class Manifest(Strict):
    """What is known of one snapshot, short of the private text."""

    format: Literal[2] = 2
    task: str
    task_version: int
    defense: str
    defense_parameters: Parameters
    seed: int
    index: int
    digest: str
    """Over token ids, model weights, task settings, salt, defense, parameters, seed and index."""
    code: str = ""
    """Digest of the code and libraries that made it; not part of `digest`, since other machines
    compare their own builds with published ones."""
    file_sha256: str
    update_kind: Literal["gradient", "difference"]
    local_steps: int
    learning_rate: FiniteFloat
    noise_scale: FiniteFloat | None
    epsilon: FiniteFloat | None
    bytes_up: int
    seconds: FiniteFloat | None = None
    """In which the client made the update; no attack is told."""
    roles: dict[str, str]
    """Parameter name of each role that the model has."""
    sketch: dict[str, list[FiniteFloat]]
    """For each shared parameter: its norm and its projections on two fixed waves."""
    kept: list[str] = []
    """Parameters that clients train and keep to themselves, so that the server has others."""


class StoredTruth(Strict):
    """One private batch, as kept on the defender's side."""

    format: Literal[2] = 2
    task: str
    task_digest: str
    """Of the definition, weights and corpus that the batch was drawn with."""
    seed: int
    index: int
    batch_digest: str
    sentences: list[TrueSentence]
    labels: list[int] | None
    lengths: list[int]

    def truth(self) -> Truth:
        """As the scorer wants it."""
        return Truth(tuple(self.sentences))


def snapshot_path(task: str, defense: str, seed: int, index: int) -> Path:
    """Where a snapshot's tensors lie; its manifest has the same name and ends in `.json`."""
    folder = cache_directory() / "snapshots" / task / file_name(defense) / f"s{seed}"
    return folder / f"{index:03d}.safetensors"


def truth_path(task: str, seed: int, index: int) -> Path:
    """Where the private batch behind a snapshot lies."""
    return cache_directory() / "truths" / task / f"s{seed}" / f"{index:03d}.json"


def batch_digest(batch: Batch) -> str:
    """Over the token ids, the mask and the labels of a batch."""
    digest = hashlib.sha256()
    for tensor in (batch.input_ids, batch.attention_mask, batch.labels):
        digest.update(f"{tuple(tensor.shape)}".encode())
        digest.update(tensor.long().contiguous().numpy().tobytes())
    return digest.hexdigest()


def inputs_digest(
    batch: str,
    task: str,
    salt: str,
    defense: str,
    parameters: Mapping[str, Scalar],
    seed: int,
    index: int,
) -> str:
    """Over everything that determines a snapshot; `task`, `salt` and `defense` are digests."""
    parts = [FORMAT, batch, task, salt, defense, sorted(parameters.items()), seed, index]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write_checked(path: Path, content: Strict) -> None:
    """Store a manifest with a sha256 of its own content."""
    body = content.model_dump(mode="json")
    stored = body | {"checksum": _checksum(body)}
    write_atomically(path, json.dumps(stored, indent=1) + "\n")


class OtherFormat(UserError):
    """A file that another version of the harness stored: as good as missing, not damaged."""


class Missing(UserError):
    """A file that is not there, or that another run is about to replace."""


def read_manifest(path: Path) -> Manifest:
    """The manifest beside a snapshot file, its checksum checked."""
    return _read_checked(path.with_suffix(".json"), Manifest)


def read_truth(path: Path) -> StoredTruth:
    """A private batch, its checksum checked."""
    return _read_checked(path, StoredTruth)


def _read_checked(path: Path, kind: type[Model]) -> Model:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["format"] != FORMAT:
            raise OtherFormat(f"{path} is of another format; run `leakboard snapshots build`.")
        checksum = body.pop("checksum")
        if checksum != _checksum(body):
            raise ValueError("its checksum does not match its content")
        return kind.model_validate_json(json.dumps(body), strict=True)
    except FileNotFoundError:
        raise Missing(f"{path} is missing; run `leakboard snapshots build`.") from None
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        why = one_line(str(error).splitlines()[0], 300) if str(error) else type(error).__name__
        raise damaged(path, why) from error


def damaged(path: Path, why: str) -> UserError:
    """A file that was edited or cut: named, and nothing is scored from it."""
    return UserError(
        f"{path} is damaged ({why}); delete it and run `leakboard snapshots build` again."
    )


def _checksum(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def check_file(path: Path, manifest: Manifest) -> None:
    """Refuse a snapshot whose tensors are not those that were stored."""
    if not path.is_file():
        raise UserError(f"{path} is missing; run `leakboard snapshots build`.")
    if file_digest(path) != manifest.file_sha256:
        raise damaged(path, "its sha256 is not the one on its manifest")
