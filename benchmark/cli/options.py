"""Options that several commands share, and what is wrong with a value before a command starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from benchmark.errors import UserError


def folder(text: str | Path) -> Path:
    """A path that was really given: an empty one would silently mean the working directory."""
    if not str(text).strip():
        raise UserError("A folder or file name is empty; give a path, or leave the option out.")
    return Path(text)


def _names(option: typer.CallbackParam, text: str | None) -> str | None:
    """Names by commas, none of them empty: an empty one would silently mean everything."""
    if text is not None and not all(part.strip() for part in text.split(",")):
        name = option.opts[0]
        raise UserError(f"{name} {text!r} has an empty name; name something, or leave {name} out.")
    return text


def _more_submissions(paths: list[str] | None) -> list[str] | None:
    """Add paths to those that `LEAKBOARD_SUBMISSIONS` names, before anything looks for them."""
    named = [os.environ.get("LEAKBOARD_SUBMISSIONS", ""), *(str(folder(p)) for p in paths or ())]
    os.environ["LEAKBOARD_SUBMISSIONS"] = os.pathsep.join(filter(None, named))
    return paths


MoreSubmissions = Annotated[
    list[str] | None,
    typer.Option(
        "--submissions",
        help="A file or folder to look for submissions in, too.",
        metavar="PATH",
        callback=_more_submissions,
    ),
]
Results = Annotated[Path, typer.Option(help="Folder of records.", parser=folder, metavar="PATH")]
Out = Annotated[Path, typer.Option(help="Folder of the pages.", parser=folder, metavar="PATH")]
Json = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Everything, as CSV.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, or one device such as cuda:1.")]
Jobs = Annotated[int, typer.Option(min=0, help="Cells at once; 0: one a core or one a GPU.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Seed of batches, defenses and attacks.")
]
Globs = Annotated[str | None, typer.Option(help="Names or globs, by commas.", callback=_names)]
Submissions = Annotated[
    str | None,
    typer.Option(help="Names or globs, by commas, each with [key=value,...].", callback=_names),
]
TimeLimit = Annotated[float, typer.Option(min=0.1, max=1e7, help="Seconds a cell may take.")]
MemoryLimit = Annotated[float, typer.Option(min=0, max=1e6, help="GiB a cell may take; 0: most.")]
RESULTS = Path("leaderboard/results")
SITE = Path("leaderboard/site")
