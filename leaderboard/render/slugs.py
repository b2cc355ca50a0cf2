"""File names for things that other people named.

Names of tasks and submissions are untrusted: a slug never leaves its folder, never collides with
another one, and stays readable.
"""

from __future__ import annotations

import hashlib
import re

PLAIN_PART = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")
"""Lower case only, because some file systems cannot tell `A.html` from `a.html`."""
MAX_PARTS = 3


def slug(name: str) -> str:
    """A safe file name stem for a name; different names get different stems.

    `mini/cola-b4` becomes `mini.cola-b4`. A name with anything unusual in it is cleaned and gets
    a short hash behind a `~`; neither `.` nor `~` can come from a plain part, so nothing collides.
    """
    parts = name.split("/")
    if len(parts) <= MAX_PARTS and all(PLAIN_PART.fullmatch(part) for part in parts):
        return ".".join(parts)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:48]
    return f"{cleaned or 'x'}~{digest}"


def task_page(task: str) -> str:
    """The task's page, relative to the site's root."""
    return f"tasks/{slug(task)}.html"


def submission_page(kind: str, name: str) -> str:
    """The submission's page, relative to the site's root."""
    return f"submissions/{kind}-{slug(name)}.html"


def cell_page(key: tuple[str, int, str, str, int]) -> str:
    """The page of one cell (task, version, defense, attack, seed), relative to the site's root."""
    task, version, defense, attack, seed = key
    name = f"{task}/v{version}/{defense}/{attack}/s{seed}"
    return f"cells/{slug(task)}/{slug(name)}.html"


def suite_page(suite: str) -> str:
    """The suite's own front page, relative to the site's root."""
    return f"suites/{slug(suite)}.html"


def matrix_page(suite: str) -> str:
    """The suite's full matrix, relative to the site's root."""
    return f"matrix/{slug(suite)}.html"
