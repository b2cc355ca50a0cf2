"""The tidy table as CSV, Parquet, LaTeX and pandas, the same bytes for the same results."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.results.utility_summary import utility_costs
from leaderboard.data.catalog import Catalog, from_registry
from leaderboard.data.ranking import boards
from leaderboard.data.rows import load
from leaderboard.data.tidy import COLUMNS, tidy_table
from leaderboard.figures.draw import safe, to_csv

if TYPE_CHECKING:
    import pandas
    import pyarrow


def results_table(results: Path, catalog: Catalog | None = None) -> pyarrow.Table:
    """The tidy table of a results folder; tasks are those that the registry knows."""
    known = catalog or registered_tasks()
    rows = load(results, known.baselines)
    made = boards(rows, {task.name: task.family for task in known.tasks})
    newest = {board.task: board.version for board in reversed(made)}
    return tidy_table(made, known, utility_costs(results), newest)


def registered_tasks() -> Catalog:
    """What the registry knows of tasks, without looking at any submission."""
    from benchmark.plugins.registry import find_suites

    return from_registry(find_suites()[0].values(), (), ())


def load_results(results: str | Path = "leaderboard/results") -> pandas.DataFrame:
    """All results as a pandas DataFrame, one row for each cell and metric.

    `leaderboard.data.tidy.COLUMNS` explains the columns.
    """
    import pandas

    kinds = {"string": "str", "int64": "Int64", "float64": "float64", "bool": "boolean"}
    table = results_table(Path(results))
    columns = {
        c.name: pandas.array(table[c.name].to_pylist(), dtype=kinds[c.kind]) for c in COLUMNS
    }
    return pandas.DataFrame(columns)


def csv_bytes(table: pyarrow.Table) -> bytes:
    """As CSV in UTF-8."""
    import pyarrow
    from pyarrow import csv

    for place, column in enumerate(COLUMNS):
        if column.kind == "string" and column.name in table.column_names:
            texts = table[column.name].dictionary_encode().unify_dictionaries()
            guarded = [
                pyarrow.DictionaryArray.from_arrays(
                    chunk.indices, pyarrow.array([safe(v) for v in chunk.dictionary.to_pylist()])
                ).cast(pyarrow.string())
                for chunk in texts.chunks
            ]
            table = table.set_column(
                place, column.name, pyarrow.chunked_array(guarded, pyarrow.string())
            )
    stream = io.BytesIO()
    csv.write_csv(table, stream)
    return stream.getvalue()


def parquet_bytes(table: pyarrow.Table) -> bytes:
    """As Parquet."""
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(table, stream, compression="zstd")
    return stream.getvalue()


def dictionary_csv() -> str:
    """The data dictionary as CSV."""
    return to_csv([{"column": c.name, "type": c.kind, "meaning": c.meaning} for c in COLUMNS])
