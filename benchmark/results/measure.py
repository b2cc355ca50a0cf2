"""From a stored record and the truth to a score: all recovery and cost metrics with intervals.

A failed or missing snapshot is scored as a recovery of nothing: 0 on every metric that its truth
allows (1 for the type count error), and it counts. A metric that the truth does not allow, such
as NERR without entities, leaves the snapshot out of the mean. An attack that only ever returned
token types has no sentence metrics at all. What an attack refused while it ran counts as failed;
only a cell that was ruled out before, by what the attack declares, has no metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmark.errors import UserError
from benchmark.metrics.decoding import Decode, Reader
from benchmark.metrics.interval import bounded_interval, t_interval
from benchmark.metrics.privacy import entity_recovery, private_token_leakage
from benchmark.metrics.sentences import (
    BatchComparison,
    compare,
    published_rouge,
    read_batch,
    sentence_metrics,
)
from benchmark.metrics.table import METRICS, of_kind
from benchmark.metrics.token_types import recovered_types, type_metrics
from benchmark.results.schema import Example, MetricValue, Record, Score, SnapshotResult, Status
from benchmark.spec import Recovery, Truth

EXAMPLES = 8
"""Sentences of each snapshot that a score shows in plain text."""


def score_record(
    record: Record,
    truths: Sequence[Truth],
    decode: Decode,
    special_ids: frozenset[int],
    record_digest: str,
    specials: int = 0,
) -> Score:
    """The metrics of one record. Truth i belongs to the snapshot with index i.

    `decode` gets ids without special tokens, of true and of recovered sentences alike; `specials`
    is how many of those the model puts around a sentence.
    """
    if record.ruled_out:
        return Score(record_digest=record_digest, metrics={})
    reader = Reader(decode, special_ids, specials)
    recoveries = _recoveries(record, len(truths))
    compared = [
        compare(read_batch(truth, recovery.sentences, reader))
        for truth, recovery in zip(truths, recoveries, strict=True)
    ]
    measured = [
        _measure(truth, recovery, comparison, reader)
        for truth, recovery, comparison in zip(truths, recoveries, compared, strict=True)
    ]
    metrics = _summaries(measured, _gives_sentences(recoveries)) | _costs(record)
    written = any(recovery.sentences for recovery in recoveries)
    examples = _examples(truths, compared) if written else []
    return Score(record_digest=record_digest, metrics=metrics, examples=examples)


def measure(truth: Truth, recovery: Recovery, reader: Reader) -> dict[str, float]:
    """All recovery metrics of one snapshot that its truth allows."""
    comparison = compare(read_batch(truth, recovery.sentences, reader))
    return _measure(truth, recovery, comparison, reader)


def _measure(
    truth: Truth, recovery: Recovery, comparison: BatchComparison, reader: Reader
) -> dict[str, float]:
    """Absent keys are metrics that do not apply."""
    types = recovered_types(truth, recovery, reader.special_ids)
    private: dict[str, float | None] = {
        "nerr": entity_recovery(comparison),
        "ptlr": private_token_leakage(comparison.batch, types, reader),
    }
    return (
        sentence_metrics(comparison)
        | published_rouge(comparison, reader.specials)
        | type_metrics(truth, types, reader.special_ids)
        | {name: value for name, value in private.items() if value is not None}
    )


def _recoveries(record: Record, count: int) -> list[Recovery]:
    """The answer to each snapshot; whatever is missing or failed recovered nothing."""
    results = {result.index: result for result in record.snapshots}
    if len(results) < len(record.snapshots) or any(index >= count for index in results):
        raise UserError(
            f"The record of {record.attack} on {record.task} has snapshots that the task does "
            "not have; delete it and run the cell again."
        )
    return [_recovery(results.get(index)) for index in range(count)]


def _recovery(result: SnapshotResult | None) -> Recovery:
    if result is None or result.status is not Status.OK:
        return Recovery()
    types = None if result.token_types is None else frozenset(result.token_types)
    return Recovery(result.sentences, types)


def _gives_sentences(recoveries: Sequence[Recovery]) -> bool:
    """False for an attack that only ever named token types; one that never answered gets zeros."""
    if any(recovery.sentences for recovery in recoveries):
        return True
    return all(recovery.token_types is None for recovery in recoveries)


def _summaries(measured: Sequence[Mapping[str, float]], sentences: bool) -> dict[str, MetricValue]:
    """Mean and interval of each recovery metric over the snapshots it applies to."""
    summaries = {}
    for metric in of_kind("recovery"):
        values = [snapshot[metric.name] for snapshot in measured if metric.name in snapshot]
        if values and (sentences or not metric.needs_sentences):
            summaries[metric.name] = summary(metric.name, values)
    return summaries


def summary(name: str, values: Sequence[float]) -> MetricValue:
    """Values of one metric with their mean and its 95 % interval.

    What is recovered from a snapshot may be distributed in any way between 0 and 1. Utility is a
    mean over hundreds of test rows already, and costs have no upper end: Student's t.
    """
    metric = METRICS.get(name)
    bottom, top = metric.bounds if metric else (None, None)
    if metric and metric.kind == "recovery" and bottom is not None and top is not None:
        mean, low, high = bounded_interval(values, bottom, top)
    else:
        mean, low, high = t_interval(values, (bottom, top))
    return MetricValue(mean=mean, low=low, high=high, n=len(values), values=list(values))


def _costs(record: Record) -> dict[str, MetricValue]:
    """Time over the successful snapshots, and what the record says of memory, traffic and ε."""
    finished = [result for result in record.snapshots if result.status is Status.OK]
    values = {
        "seconds": [result.seconds for result in finished],
        "peak_mb": [record.peak_mb],
        "bytes_up": [record.bytes_up],
        "epsilon": [record.epsilon],
    }
    known = {name: [v for v in column if v is not None] for name, column in values.items()}
    return {name: summary(name, column) for name, column in known.items() if column}


def _examples(truths: Sequence[Truth], compared: Sequence[BatchComparison]) -> list[Example]:
    """The first sentences of every snapshot beside their partners, empty where there is none."""
    examples = []
    for index, (truth, comparison) in enumerate(zip(truths, compared, strict=True)):
        rows = {true.place: row for row, true in enumerate(comparison.batch.truths)}
        for place in sorted(rows)[:EXAMPLES]:
            partner = comparison.partner(rows[place])
            examples.append(
                Example(
                    index=index,
                    sentence=place,
                    truth=truth.sentences[place].text,
                    recovered=partner.text if partner else "",
                )
            )
    return examples
