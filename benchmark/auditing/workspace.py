"""A cache of its own for an audit: private text and what is made of it lie nowhere else.

It is removed when the audit ends, however it ends; one that was killed is removed by the next.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmark.execution.engines.local import remove_orphans, remove_tree
from benchmark.paths import cache_directory, cache_in


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder that only the user may list, and that is the cache meanwhile."""
    base = cache_directory() / "audits"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_orphans(base)
    folder = Path(tempfile.mkdtemp(dir=base, prefix=f"{os.getpid()}-"))
    try:
        with cache_in(folder):
            yield folder
    finally:
        remove_tree(folder)
        with suppress(OSError):  # another audit is running
            base.rmdir()
