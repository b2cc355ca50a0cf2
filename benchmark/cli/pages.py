"""`leakboard score` and `leakboard site`: from records to metrics, from metrics to pages."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli.options import RESULTS, SITE, MoreSubmissions, Out, Results
from benchmark.cli.text import printable


def score(
    results: Results = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Score everything again.")] = False,
    submissions: MoreSubmissions = None,
) -> None:
    """Compute metrics from the records."""
    from benchmark.cli import listing
    from benchmark.cli.session import find_catalog, name_broken, need_folder

    need_folder(results)
    failed = score_records(results, force)
    content = listing.site_content(*listing.found_or_broken(find_catalog))
    if name_broken(content["broken"]) or failed:
        raise typer.Exit(1)


def score_records(results: Path, force: bool = False) -> int:
    """Score all records and print the counts; returns how many lack something or are damaged."""
    from benchmark.results import scoring, worst_case

    counts: dict[str, int] = defaultdict(int)
    left_out: dict[str, list[Path]] = defaultdict(list)
    failed = 0
    for item in scoring.score_all(results, force):
        if item.outcome in ("scored", "unchanged"):
            counts[item.outcome] += 1
        else:
            counts["left out"] += 1
            left_out[item.outcome].append(item.path)
        failed += item.failed
    worst_case.write_worst_cases(results)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "no records")
    for reason, paths in left_out.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        named = "" if str(paths[0]) in reason else f"{paths[0]}{others}: "
        print(printable(f"left out {named}{reason}"), file=sys.stderr)
    return failed


def site(
    results: Results = RESULTS,
    out: Out = SITE,
    timing: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSON file of pytest-benchmark, or a folder of them, for a page on timing; "
            "several show their history.",
        ),
    ] = None,
    submissions: MoreSubmissions = None,
) -> None:
    """Render the leaderboard as static pages."""
    from benchmark.cli import listing
    from benchmark.cli.session import find_catalog, name_broken, need_folder
    from benchmark.plugins.registry import render_site

    need_folder(results)
    content = listing.site_content(*listing.found_or_broken(find_catalog))
    page = render_site(results, out, timing=timing or (), **content)
    print(f"The leaderboard is at {page.resolve().as_uri()}")
    if name_broken(content["broken"]):
        raise typer.Exit(1)
