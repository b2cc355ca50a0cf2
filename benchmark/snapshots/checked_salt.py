"""A salt that has changed on disk is never used: it would make other noise without a word.

Apart from `salt`, whose code every result depends on.
"""

from __future__ import annotations

from benchmark.files import has_digest, write_digest
from benchmark.ownership import alone
from benchmark.snapshots.salt import salt_digest, salt_path
from benchmark.suites import LoadedTask


def checked_salt_digest(side: LoadedTask) -> str:
    """The digest of a task's salt, which is computed anew where its file is not as it was."""
    path = salt_path(side.task.corpus)
    if not has_digest(path):
        with alone(f"{path}"):
            if not has_digest(path):  # no other run was faster
                path.unlink(missing_ok=True)
                salt_digest(side)
                write_digest(path)
    return salt_digest(side)
