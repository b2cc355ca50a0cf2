"""From a model reference `<source>:<name>` to a folder with the exact public weights of a task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from benchmark.errors import UserError, unknown_name
from benchmark.paths import expanded
from tasks.hub_lock import LOCKED, check_model, pinned_commit
from tasks.models.digests import CHECKSUM_FILE, model_digest, verify_checksum

WEIGHTS = Path(__file__).resolve().parent / "weights"
"""The models that come with the repository; `python -m tasks.models.train` makes them."""

_HUB_FILES = [
    "config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "*.spm", "*.model",
]  # fmt: skip
"""What is fetched: safetensors, configuration and tokenizer, never a pickle or a script."""

_NESTED = ["*/*"]
"""What is not: files below the top folder are exports for other programs."""


def locate(reference: str) -> Path:
    """The folder that a model reference names, fetched first where it lies on the hub."""
    source, separator, name = reference.partition(":")
    if not separator or source not in SOURCES:
        raise UserError(
            f"{reference!r} is not a model reference; write <source>:<name> with one of the "
            f"sources {', '.join(sorted(SOURCES))}."
        )
    return SOURCES[source](name)


def builtin_names() -> tuple[str, ...]:
    """Names of the models in the repository."""
    if not WEIGHTS.is_dir():
        return ()
    return tuple(sorted(p.parent.name for p in WEIGHTS.glob("*/config.json")))


def _builtin(name: str) -> Path:
    names = builtin_names()
    if not names:
        raise UserError(f"{WEIGHTS} is empty; run `python -m tasks.models.train` to fill it.")
    if name not in names:
        raise unknown_name("builtin model", name, names)
    folder = WEIGHTS / name
    if not (folder / CHECKSUM_FILE).exists():  # trained by the user, perhaps
        return folder
    return verify_checksum(
        folder, "fetch it again with `git checkout`, or install the package again"
    )


def _directory(name: str) -> Path:
    path = expanded(name, "The model folder").resolve()
    if not (path / "config.json").is_file():
        raise UserError(f"{path} is not a model folder: it needs config.json and *.safetensors.")
    return path


def _package(name: str) -> Path:
    from tasks.models.packages import locate as locate_package

    return Path(locate_package(name))


def _trained(name: str) -> Path:
    from tasks.models.finetuning.store import locate as locate_trained

    return locate_trained(name)


def _hub(name: str) -> Path:
    repository, separator, revision = name.partition("@")
    if not separator or not revision:
        raise UserError(
            f"hub:{name} does not pin a revision; write hub:{repository}@<commit>, so that "
            "everyone measures the same weights."
        )
    if revision != LOCKED:
        return _cached(repository, revision) or _downloaded(repository, revision)
    commit = pinned_commit("models", repository)
    folder = _cached(repository, commit) or _downloaded(repository, commit)
    check_model(repository, model_digest(folder))
    return folder


def _cached(repository: str, revision: str) -> Path | None:
    """A revision that was fetched before needs no network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        found = snapshot_download(
            repository,
            revision=revision,
            local_files_only=True,
            allow_patterns=_HUB_FILES,
            ignore_patterns=_NESTED,
        )
    except HFValidationError as error:
        raise UserError(f"{repository!r} is not the name of a hub repository.") from error
    except (OSError, ValueError):  # not there, or only in part
        return None
    return Path(found) if _complete(Path(found)) else None


def _complete(folder: Path) -> bool:
    """Whether configuration and every shard of the weights are there."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text())["weight_map"].values())
    else:
        shards = {"model.safetensors"}
    return all((folder / name).is_file() for name in {"config.json", *shards})


def _downloaded(repository: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    whole = f"{repository} at revision {revision}"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise UserError(f"{whole} is not in the hub cache, and HF_HUB_OFFLINE forbids to fetch it.")
    try:
        found = snapshot_download(
            repository, revision=revision, allow_patterns=_HUB_FILES, ignore_patterns=_NESTED
        )
        folder = Path(found)
    except HfHubHTTPError as error:
        raise UserError(
            f"The hub refused {whole} ({type(error).__name__}); check name, revision and access."
        ) from error
    except Exception as error:  # the hub's client changes its HTTP library, and with it the errors
        raise UserError(
            f"The hub cannot be reached to fetch {whole} ({type(error).__name__}); connect to the "
            "network, set HF_ENDPOINT to a mirror, or name a local copy as dir:<path>."
        ) from error
    if not _complete(folder):
        raise UserError(f"{whole} holds no safetensors weights, and Leakboard reads no other kind.")
    return folder


SOURCES: dict[str, Callable[[str], Path]] = {
    "builtin": _builtin,
    "dir": _directory,
    "hub": _hub,
    "package": _package,
    "trained": _trained,
}
