"""Rows of a report, as they stand in its CSV file and in the tables of its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Row = Mapping[str, str]
FIELDS = (
    "part", "task", "defense", "seed", "attack", "metric", "rank", "mean", "low", "high", "n",
    "baseline", "seconds", "panel", "remark",
)  # fmt: skip


def row_figures(mean: float, low: float, high: float, n: int | None = None) -> dict[str, str]:
    """Mean, interval and number of a row, rounded."""
    found = {"mean": f"{mean:.4g}", "low": f"{low:.4g}", "high": f"{high:.4g}"}
    return found | ({} if n is None else {"n": str(n)})


def table_row(part: str, task: str, defense: str, **values: str) -> Row:
    """A row with the given values, each on one line."""
    given = {"part": part, "task": task, "defense": defense} | values
    return {name: " ".join(given.get(name, "").split()) for name in FIELDS}


def interval(row: Row) -> str:
    """Mean and interval as a document shows them; empty where there are none."""
    if row["n"] == "1":
        return f"{row['mean']} (n = 1)"  # which has no interval
    return f"{row['mean']} [{row['low']}, {row['high']}]" if row["mean"] else ""


def markdown_table(names: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"
    yield ""
