"""A cache of its own for an audit: private text and what is made of it lie nowhere else.

It is removed when the audit ends, however it ends; one that was killed is removed by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmark.ownership import claim_folder, release_folder
from benchmark.paths import cache_directory, cache_in


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder that only the user may list, and that is the cache meanwhile."""
    base = cache_directory() / "audits"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = claim_folder(base)
    try:
        with cache_in(folder):
            yield folder
    finally:
        release_folder(folder)
        with suppress(OSError):  # another audit is running
            base.rmdir()
