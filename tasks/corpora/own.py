"""A user's own text as a corpus, `own:<digest>`, which lies in the cache while it is measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmark.errors import UserError
from benchmark.files import write_atomically
from benchmark.paths import cache_directory
from tasks.corpora.base import Row, Split


def stage(private: Sequence[Row], test: Sequence[Row] = ()) -> str:
    """Store rows for `load` and return the reference of the corpus that they are."""
    splits = {"private": list(map(asdict, private)), "test": list(map(asdict, test))}
    content = json.dumps(splits)
    name = hashlib.sha256(content.encode()).hexdigest()
    write_atomically(_path(name), content)
    return f"own:{name}"


def load(name: str, split: Split) -> tuple[Row, ...]:
    """Return a split; there is no public one, since nobody else has seen the text."""
    try:
        rows = json.loads(_path(name).read_text(encoding="utf-8")).get(split, [])
    except OSError as error:
        raise UserError(f"The text own:{name} is gone; run the audit again.") from error
    return tuple(Row(row["text"], row["label"], row["source"]) for row in rows)


def _path(name: str) -> Path:
    return cache_directory() / "own" / f"{name}.json"
