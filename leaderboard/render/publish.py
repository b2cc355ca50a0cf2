"""Puts a rendered site in place of the former one, so that no reader sees half of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmark.errors import UserError

MARKER = ".leakboard-site"
MARKER_TEXT = "Written by `leakboard site`, which replaces its own pages in this folder.\n"


def check_target(out: Path, results: Path) -> None:
    """Refuse a target that is not ours to replace.

    Raises:
        UserError: `out` is a file, a folder that no site marked, or it holds the results.
    """
    if results.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{out} holds the results, which a new site would delete; choose another.")
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file; name a folder for the site.")
    if any(out.iterdir()) and not (out / MARKER).is_file():
        raise UserError(
            f"{out} is not empty and not a former site (no {MARKER} in it); "
            "choose an empty folder, or empty this one yourself."
        )


def publish(pages: Mapping[str, str | bytes], out: Path) -> None:
    """Write pages by relative path into a fresh folder, then swap it with `out`.

    What else lies at the top of the former site (such as a `.nojekyll`) is kept. Should the swap
    fail, the former site is put back.
    """
    out = out.resolve()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        _build_and_swap(pages, out, workshop)
    except OSError as error:
        raise UserError(f"Cannot write the site to {out}: {error.strerror}.") from error


def _build_and_swap(pages: Mapping[str, str | bytes], out: Path, workshop: Path) -> None:
    fresh, former = workshop / "fresh", workshop / "former"
    try:
        _write(pages, fresh)
        _swap(fresh, out, former)
        if former.exists():
            _keep(former, out, _top_names(pages))
            shutil.rmtree(former)
    finally:
        if not former.exists():  # else something in it was not brought over: leave it to be found
            shutil.rmtree(workshop)


def _swap(fresh: Path, out: Path, former: Path) -> None:
    """Two renames; whatever interrupts them, the former site comes back."""
    try:
        if out.exists():
            out.rename(former)
        fresh.rename(out)
    except BaseException:
        if former.exists() and not out.exists():
            former.rename(out)
        raise


def _write(pages: Mapping[str, str | bytes], folder: Path) -> None:
    made = set()
    for name, text in {**pages, MARKER: MARKER_TEXT}.items():
        target = folder / name
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        content = text if isinstance(text, bytes) else text.encode("utf-8", errors="replace")
        target.write_bytes(content)


def _top_names(pages: Mapping[str, str | bytes]) -> frozenset[str]:
    """Entries of the site's root that belong to the site."""
    always = {MARKER, "index.html", "metrics.html", "timing.html", "tasks", "submissions"}
    return frozenset(always | {name.split("/")[0] for name in pages})


def _keep(former: Path, out: Path, ours: frozenset[str]) -> None:
    """Move what the site did not write from the former folder to the new one."""
    for entry in sorted(former.iterdir()):
        if entry.name not in ours:
            entry.rename(out / entry.name)
