"""`leakboard new`: a commented submission that runs as it is."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Annotated, Literal

import typer

from benchmark.cli.options import folder
from benchmark.errors import UserError
from benchmark.files import write_atomically
from benchmark.paths import ROOT

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
Folder = Annotated[
    Path | None,
    typer.Option("--dir", help="Folder to put it in.", parser=folder, metavar="PATH"),
]


def new(
    kind: Annotated[Literal["attack", "defense"], typer.Argument(help="attack or defense")],
    name: Annotated[str, typer.Argument(help="Lower case, digits and _; also the file's name.")],
    directory: Folder = None,
    test: Annotated[bool, typer.Option("--test", help="Write a test of it, too.")] = False,
) -> None:
    """Write one commented file with a method that is simple and works."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is no name of a submission; use up to 64 lower-case letters, digits and _, "
            "a letter first."
        )
    home, tests, between = _places(kind, directory)
    file, beside = home / f"{name}.py", tests / f"test_{name}.py"
    _refuse_taken(kind, name, [file, beside] if test else [file])
    values = {"name": name, "class_name": "".join(w.capitalize() for w in name.split("_"))}
    article = "an" if kind == "attack" else "a"
    write_atomically(file, _filled(kind, values))
    print(f"{file}: {article} {kind} that runs as it is. Next: leakboard check {file}")
    if test:
        write_atomically(beside, _filled("test", values | {"between": between}))
        print(f"{beside}: its test. Next: pytest {beside}")


def _places(kind: str, directory: Path | None) -> tuple[Path, Path, str]:
    """Folders of the submission and of its test, and the way from this to that as code."""
    if directory is not None:
        return directory, directory, ".parent"
    if not (ROOT / "pyproject.toml").exists():
        raise UserError("This is no checkout of the project; name a folder with --dir.")
    between = f'.parents[2] / "submissions" / "{kind}s"'
    return ROOT / "submissions" / f"{kind}s", ROOT / "tests" / "submissions", between


def _refuse_taken(kind: Literal["attack", "defense"], name: str, files: list[Path]) -> None:
    from benchmark.plugins.candidates import candidates

    for file in files:
        if file.exists():
            raise UserError(f"{file} exists already; take another name or folder.")
    for candidate in candidates(kind):
        if Path(candidate.where).stem == name:
            raise UserError(f"The name {name} is taken by {candidate.where}; take another one.")


def _filled(template: str, values: dict[str, str]) -> str:
    text = (TEMPLATES / f"{template}.py.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values)
