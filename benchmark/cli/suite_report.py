"""What `leakboard report --suite` adds: a table for each topic, what ran how long, what did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.report_rows import Row, interval, markdown_table, row_figures, table_row
from benchmark.plugins.registry import all_tasks, trained_as
from benchmark.suites import NO_DEFENSE

if TYPE_CHECKING:
    from benchmark.results.schema import MetricValue, Record, Score
    from benchmark.suites import Suite, Topic

INTRODUCTION = """\
# Results of the `{suite}` suite

Made by `leakboard report --suite {suite}` from the published records under
`leaderboard/results/{suite}`; no figure is typed by hand, and the same figures are in
[results-{suite}.csv](results-{suite}.csv). Intervals are of 95 %; the tables by subject take the
snapshots of all seeds together. Ranks come from paired tests:
[methods](methods.md#intervals-ranks-and-means). The papers' orderings on the same records:
[orderings-{suite}](orderings-{suite}.md).
"""
TRAINING = "training for the utility"
NOTHING = "*Nothing of this was measured.*\n"
MISSING_INTRODUCTION = """\
What the suite's plan has and nobody has run, or what failed. To go on from the published records in
a folder of your own, whose texts stay there (the first command makes the trained models, once):

```
python -m tasks.models.train_open
leakboard merge leaderboard/results --out results
leakboard run --suite {suite} --seed 100 --results results
leakboard score --results results
leakboard publish --suite {suite} --results results
```
"""


def collect(results: Path, suite: Suite) -> Iterator[Row]:
    """Rows of topics, times, and of what is missing."""
    if not suite.topics:
        return
    scored = _scored(results, suite)
    for topic in suite.topics:
        yield from _topic(topic, suite, scored)
    yield from _times(suite, scored)
    yield from _missing(suite, scored, _trained(results, suite))
    measured = {task for task, _, _ in scored} | {line.task for line in suite.plan}
    for task in suite.tasks:
        if task.name.partition("/")[2] not in measured:
            yield table_row("unplanned", task.name, "")


def _trained(results: Path, suite: Suite) -> set[tuple[str, str]]:
    """Task and defense of each training that ended well."""
    from benchmark.results.schema import UtilityRecord
    from benchmark.results.store import read_records, utility_files

    records = (record for _, record in read_records(utility_files(results), UtilityRecord))
    return {
        (record.task, record.defense_name)
        for record in records
        if record.suite == suite.name and record.status == "ok"
    }


Scored = dict[tuple[str, str, str], "list[tuple[Record, Score | None]]"]
"""Records and scores of every seed, by short name of the task, attack and defense."""


def _scored(results: Path, suite: Suite) -> Scored:
    from benchmark.results.schema import Record
    from benchmark.results.store import fresh_score, read_records, record_files

    found: Scored = {}
    for path, record in read_records(record_files(results), Record):
        if record.suite == suite.name:
            task = record.task.partition("/")[2]
            key = task, record.attack_name, record.defense_name
            found.setdefault(key, []).append((record, fresh_score(path)))
    for each in found.values():
        each.sort(key=lambda pair: pair[0].seed)
    return found


def _topic(topic: Topic, suite: Suite, scored: Scored) -> Iterator[Row]:
    """The snapshots of all seeds together."""
    for task, attack in topic.cells:
        found = [(r, s) for r, s in scored.get((task, attack, "none"), []) if s is not None]
        scores = [score for _, score in found]
        seconds = _pooled("seconds", scores)
        for metric in topic.metrics:
            yield table_row(
                "topic", f"{suite.name}/{task}", "none", attack=attack, metric=metric,
                seed=" ".join(str(record.seed) for record, _ in found),
                seconds=f"{seconds.mean:.3g}" if seconds else "",
                panel=topic.title, remark=topic.remark, **_figures(_pooled(metric, scores)),
            )  # fmt: skip


def _pooled(metric: str, scores: Sequence[Score]) -> MetricValue | None:
    """One mean and interval over the snapshots of several scores."""
    from benchmark.results.measure import summary

    values = [
        v for score in scores if metric in score.metrics for v in score.metrics[metric].values
    ]
    return summary(metric, values) if values else None


def _figures(value: MetricValue | None) -> dict[str, str]:
    return row_figures(value.mean, value.low, value.high, value.n) if value else {}


def _times(suite: Suite, scored: Scored) -> Iterator[Row]:
    """How long the attacks on each task took, preparation included."""
    for task, group in groupby(sorted(scored), key=lambda key: key[0]):
        records = [record for key in group for record, _ in scored[key]]
        spent = sum(
            (record.prepare_seconds or 0.0) + sum(s.seconds or 0.0 for s in record.snapshots)
            for record in records
        )
        snapshots = sum(len(record.snapshots) for record in records)
        yield table_row(
            "time", f"{suite.name}/{task}", "", n=str(len(records)), seconds=f"{spent:.0f}",
            remark=str(snapshots), panel=_threads(records),
        )  # fmt: skip


def _threads(records: Sequence[Record]) -> str:
    return " ".join(sorted({str(record.provenance.threads) for record in records}))


def _missing(suite: Suite, scored: Scored, trained: set[tuple[str, str]]) -> Iterator[Row]:
    """Cells and trainings of the plan without a record, and records that are not complete."""
    for line in suite.plan:
        found = [record for record, _ in scored.get((line.task, line.attack, line.defense), [])]
        if not any(record.status in ("ok", "unsupported") for record in found):
            remark = f"{found[0].status}: {found[0].reason}" if found else "not run"
            yield table_row("missing", f"{suite.name}/{line.task}", line.defense,
                            attack=line.attack, remark=remark)  # fmt: skip
    tasks = all_tasks()
    for line in suite.utility:
        task = trained_as(tasks[f"{suite.name}/{line.task}"]).name
        if (task, line.defense) not in trained:
            remark = "not run"
            yield table_row("missing", task, line.defense, attack=TRAINING, remark=remark)


# ---------------------------------------------------------------------------------- as a document


def sections(rows: Sequence[Row], suite: str) -> Iterator[str]:
    """Topics, times and what is missing, as Markdown."""
    yield INTRODUCTION.format(suite=suite)
    topics = [row for row in rows if row["part"] == "topic"]
    for title, group in groupby(topics, key=lambda row: row["panel"]):
        yield from _topic_section(title, list(group))
    yield from _trade_off(rows)
    yield from _time_section([row for row in rows if row["part"] == "time"])
    yield from _missing_section([row for row in rows if row["part"] == "missing"], suite)
    yield from _unplanned([row["task"] for row in rows if row["part"] == "unplanned"])


def _topic_section(title: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"## {title}\n"
    if rows[0]["remark"]:
        yield f"{rows[0]['remark']}\n"
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    lines = []
    for (task, attack), group in groupby(rows, key=lambda row: (row["task"], row["attack"])):
        found = {row["metric"]: row for row in group}
        any_row = next(iter(found.values()))
        shown = next((row for row in found.values() if row["mean"]), any_row)
        values = [interval(found[metric]) or "–" for metric in metrics]
        lines.append((task, attack, *values, shown["n"], shown["seconds"]))
    yield from markdown_table(("task", "attack", *metrics, "n", "s"), lines)


def _trade_off(rows: Sequence[Row]) -> Iterator[str]:
    """Worst case of each defense, and without one on the same snapshots, beside its utility."""
    yield "## Worst case of each defense, with its utility\n"
    worst = [r for r in rows if r["part"] == "worst case" and r["metric"] in ("rougeL", "type_f1")]
    defended = {(r["task"], r["seed"]) for r in worst if r["defense"] != NO_DEFENSE}
    worst = [row for row in worst if (row["task"], row["seed"]) in defended]
    utility: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["part"] == "utility" and not row["metric"].startswith(("step_", "bytes_")):
            utility.setdefault((row["task"], row["defense"]), []).append(row)
    lines, tasks = [], all_tasks()
    for row in worst:
        task = tasks.get(row["task"])
        trained = utility.get((trained_as(task).name, row["defense"]), []) if task else []
        worth = ", ".join(f"{each['metric']} {interval(each)}" for each in trained)
        lines.append((row["task"], row["defense"], row["seed"], row["metric"], row["attack"],
                      interval(row), row["n"], row["panel"], worth or "not trained"))  # fmt: skip
    if not lines:
        yield NOTHING
        return
    yield from markdown_table(
        ("task", "defense", "seed", "metric", "strongest attack", "mean [low, high]", "n", "panel",
         "utility"), lines,
    )  # fmt: skip


def _time_section(rows: Sequence[Row]) -> Iterator[str]:
    yield "## What ran how long\n"
    total = sum(float(row["seconds"]) for row in rows) / 60
    threads = sorted({each for row in rows for each in row["panel"].split()})
    yield (
        f"{total:.0f} minutes of attacks in all, of one cell after another, each on "
        f"{' or '.join(threads)} thread{'' if threads == ['1'] else 's'} of a machine that was "
        "shared.\n"
    )
    lines = [(r["task"], r["n"], r["remark"], f"{float(r['seconds']) / 60:.1f}") for r in rows]
    yield from markdown_table(("task", "cells", "recoveries", "minutes"), lines)


def _missing_section(rows: Sequence[Row], suite: str) -> Iterator[str]:
    yield "## What did not finish\n"
    yield MISSING_INTRODUCTION.format(suite=suite)
    lines = []
    for (task, defense, remark), group in groupby(
        rows, key=lambda row: (row["task"], row["defense"], row["remark"])
    ):
        lines.append((task, defense, ", ".join(row["attack"] for row in group), remark))
    yield from markdown_table(("task", "defense", "attacks", ""), lines)


def _unplanned(tasks: Sequence[str]) -> Iterator[str]:
    if tasks:
        yield "## Declared, and in no plan\n"
        yield (
            f"{len(tasks)} tasks of the suite that nobody has measured yet; `leakboard run --task` "
            f"runs each of them: {', '.join(f'`{name}`' for name in tasks)}.\n"
        )
