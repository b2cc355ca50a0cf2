"""The secret that the randomness of defenses, clients and trainings depends on.

A salt is a digest over the whole private split of a corpus. So snapshots are the same on every
machine that holds the corpus, while nobody else can compute the noise, and a guess of one text
cannot be confirmed by recomputing it. `LEAKBOARD_SALT` mixes in a secret of the maintainer's own,
which matters where the corpus itself is public; it should be long and random.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from benchmark.files import Strict, write_model
from benchmark.paths import cache_directory
from benchmark.suites import LoadedTask


class StoredRowsDigest(Strict):
    """What is kept beside the truths, so that a corpus is not read each time."""

    corpus: str
    corpus_digest: str
    """Of what the corpus is read or generated from; another one makes the rest worthless."""
    rows_digest: str
    """Of all private rows."""


def salt(side: LoadedTask) -> str:
    """The secret of a task's corpus: for the harness's own process and nobody else."""
    return _hash("salt", _rows_digest(side), os.environ.get("LEAKBOARD_SALT", ""))


def salt_digest(side: LoadedTask) -> str:
    """Tells two salts apart without telling either; what manifests and records depend on."""
    return _hash("salt digest", salt(side))


def salt_path(corpus: str) -> Path:
    """Where the digest of a corpus' private rows lies."""
    return cache_directory() / "truths" / f"{quote(corpus, safe='')}.salt"


def _rows_digest(side: LoadedTask) -> str:
    corpus = side.task.corpus
    path = salt_path(corpus)
    try:
        stored = StoredRowsDigest.model_validate_json(path.read_bytes())
        if (stored.corpus, stored.corpus_digest) == (corpus, side.corpus_digest):
            return stored.rows_digest
    except (OSError, ValidationError):
        pass  # not there, or not readable: as good as none
    digest = side.private_rows_digest()
    write_model(
        path,
        StoredRowsDigest(corpus=corpus, corpus_digest=side.corpus_digest, rows_digest=digest),
    )
    return digest


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(["leakboard", *parts]).encode()).hexdigest()
