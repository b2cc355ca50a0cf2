"""`leakboard export`: all results as one tidy table, or the ranked tables for a paper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmark.cli.options import RESULTS, MoreSubmissions, Results

File = Annotated[
    Path | None, typer.Option("--out", help="File to write; standard output where left out.")
]


def export(
    results: Results = RESULTS,
    as_csv: Annotated[bool, typer.Option("--csv", help="The tidy table as CSV.")] = False,
    as_parquet: Annotated[
        bool, typer.Option("--parquet", help="The tidy table as Parquet; needs --out.")
    ] = False,
    as_latex: Annotated[
        bool, typer.Option("--latex", help="The ranked tables of attacks and defenses as LaTeX.")
    ] = False,
    out: File = None,
    submissions: MoreSubmissions = None,
) -> None:
    """Write all results as one table, a row for each cell and metric, or as tables of a paper."""
    from benchmark.cli import listing
    from benchmark.cli.session import find_catalog, need_folder
    from benchmark.errors import UserError
    from benchmark.plugins.registry import export_results

    forms: dict[Literal["csv", "parquet", "latex"], bool]
    forms = {"csv": as_csv, "parquet": as_parquet, "latex": as_latex}
    selected = [form for form, wanted in forms.items() if wanted]
    if len(selected) != 1:
        raise UserError("Give one of --csv, --parquet and --latex.")
    if as_parquet and out is None:
        raise UserError("Parquet is no text: name a file with --out.")
    need_folder(results)
    content = listing.site_content(*listing.found_or_broken(find_catalog))
    written = export_results(results, selected[0], **content)
    if out is None:
        sys.stdout.buffer.write(written)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(written)
        print(f"Wrote {len(written)} bytes to {out}.")
