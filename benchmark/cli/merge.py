"""`leakboard merge`: results of several machines in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli.options import folder

Folders = Annotated[
    list[Path], typer.Argument(help="Folders of records.", metavar="DIR...", parser=folder)
]
Into = Annotated[
    Path,
    typer.Option(help="Folder to join them in; what it holds counts, too.", parser=folder,
                 metavar="PATH"),
]  # fmt: skip


def merge(folders: Folders, out: Into) -> None:
    """Join results of several machines.

    Identical cells are kept once; where two differ in more than time and place, both are named,
    nothing is written, and the exit code is 2.
    """
    from benchmark.cli.display import count
    from benchmark.cli.session import need_folder
    from benchmark.results.merge import merge as join

    for each in folders:
        need_folder(each)
    cells = count(join(folders, out), "cell")
    print(f"{out} holds {cells}; `leakboard score` computes their metrics.")
