"""`leakboard compare`: whether one attack recovers more than another, with a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli.options import RESULTS, Csv, Json, Results

if TYPE_CHECKING:
    from benchmark.results.versus import Meeting


def compare(
    first: Annotated[str, typer.Argument(help="ATTACK, ATTACK@TASK or ATTACK@TASK@DEFENSE.")],
    second: Annotated[str, typer.Argument(help="What it is compared with, likewise.")],
    metric: Annotated[str, typer.Option(help="Recovery metric to compare.")] = "rougeL",
    results: Results = RESULTS,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Compare two attacks on the snapshots that both were run on.

    Each task and seed is tested on its own, with Holm's correction, and then all together. One
    attack may also be compared with itself on another task or under another defense.
    """
    from benchmark.cli.output import emit, output_format
    from benchmark.cli.session import need_folder
    from benchmark.cli.show import check_metric
    from benchmark.errors import UserError
    from benchmark.results.versus import Side, meetings

    form = output_format(as_json, as_csv)
    need_folder(results)
    check_metric(metric)
    found = meetings(results, Side.parse(first), Side.parse(second), metric)
    if not found:
        raise UserError(
            f"{first} and {second} have no scored result of {metric} with the same seed in "
            f"{results}; `leakboard show` lists what there is."
        )
    rows = [vars(meeting) | {"difference": meeting.difference} for meeting in found]
    emit(rows, form, lambda: meeting_lines(first, second, metric, found))


def meeting_lines(first: str, second: str, metric: str, found: Sequence[Meeting]) -> Iterator[str]:
    """A line for each meeting, then what the figures mean."""
    from benchmark.cli import text

    head = ("task", "seed", "n", "first", "second", "difference", "p", "by Holm")
    cells = [head, *(_cells(meeting) for meeting in found)]
    yield from text.wrapped(f"{metric} of {first} (first) and {second} (second)")
    yield from text.aligned(cells, {1, 2, 3, 4, 5, 6})
    tests = "sign flips of the paired differences"
    if not all(meeting.paired for meeting in found):
        tests = f"{tests}, or, marked *, a random split where the snapshots differ"
    yield from text.wrapped(f"p: two-sided, by {tests}.")


def _cells(meeting: Meeting) -> tuple[str, ...]:
    same = meeting.first_task == meeting.second_task
    task = meeting.first_task if same else f"{meeting.first_task}, {meeting.second_task}"
    return (
        task,
        "" if meeting.seed is None else str(meeting.seed),
        f"{meeting.n}{'' if meeting.paired else '*'}",
        f"{meeting.first:.3f}",
        f"{meeting.second:.3f}",
        f"{meeting.difference:+.3f}",
        f"{meeting.p_value:.2g}",
        "" if meeting.seed is None else f"{meeting.adjusted:.2g}",
    )
