"""Revisions of hub repositories, pinned at the first download and checked ever after.

A reference that ends in `@locked` stands for the commit in a lock file: the project's own,
`tasks/hub-lock.json`, which published results come with, else one in the cache. What neither names
is pinned to the commit that the hub has today. Of models the digest of all files is pinned as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from benchmark.errors import UserError
from benchmark.files import Strict, read_model, write_model
from benchmark.paths import cache_directory

LOCKED = "locked"
PROJECT = Path(__file__).resolve().parent / "hub-lock.json"
Kind = Literal["models", "datasets"]


class Pin(Strict):
    """What a repository was when it was first used."""

    commit: str
    digest: str = ""
    """Of a model's files; empty until it has been downloaded."""


class HubLock(Strict):
    """All pins, by the name of the repository."""

    models: dict[str, Pin] = {}
    datasets: dict[str, Pin] = {}


def pinned_commit(kind: Kind, repository: str) -> str:
    """The commit that a repository is locked to, asked of the hub where nobody has yet."""
    found = _find(kind, repository)
    if found is None:
        found = Pin(commit=_newest(kind, repository))
        _note(kind, repository, found)
    return found.commit


def check_model(repository: str, digest: str) -> None:
    """Note the digest of a model's files at the first download, and refuse any other afterwards."""
    pin = _find("models", repository)
    assert pin is not None  # its commit was asked for before
    if not pin.digest:
        _note("models", repository, pin.model_copy(update={"digest": digest}))
    elif pin.digest != digest:
        raise UserError(
            f"The files of {repository} at {pin.commit[:12]} are not those that were first "
            f"downloaded (SHA-256 {digest[:12]}, locked {pin.digest[:12]}); delete them from the "
            "hub's cache, or the pin from the lock file if you mean to begin anew."
        )


def lock_path() -> Path:
    """The lock file of this machine."""
    return cache_directory() / "hub-lock.json"


def _find(kind: Kind, repository: str) -> Pin | None:
    for path in (PROJECT, lock_path()):
        pin = _pins(_read(path), kind).get(repository)
        if pin is not None:
            return pin
    return None


def _read(path: Path) -> HubLock:
    return read_model(path, HubLock) if path.is_file() else HubLock()


def _pins(lock: HubLock, kind: Kind) -> dict[str, Pin]:
    return lock.models if kind == "models" else lock.datasets


def _note(kind: Kind, repository: str, pin: Pin) -> None:
    lock = _read(lock_path())
    pins = _pins(lock, kind) | {repository: pin}
    write_model(lock_path(), lock.model_copy(update={kind: pins}))


def _newest(kind: Kind, repository: str) -> str:
    """The commit of the repository's main branch."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        about = (api.model_info if kind == "models" else api.dataset_info)(repository)
    except Exception as error:  # the hub's client changes its HTTP library, and with it the errors
        raise UserError(
            f"The hub cannot be asked for the revision of {repository} ({type(error).__name__}); "
            f"connect to the network, set HF_ENDPOINT to a mirror, or put its commit into "
            f"{lock_path()}."
        ) from error
    return str(about.sha)
