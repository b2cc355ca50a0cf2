"""Records without what was recovered: figures, digests and provenance, but no text and no ids.

Text that may not be passed on stays on the machine that measured it, and so does everything that an
attack wrote itself. What was recovered is kept as one digest over all snapshots, by which a
repetition can still be told to be the same.
"""

from __future__ import annotations

import hashlib
import json

from benchmark.results.schema import Record, Score, SnapshotResult
from benchmark.status import Status

KEPT_BACK = "What the attack said is kept back."


def withhold(record: Record) -> Record:
    """The record without recoveries; one that was published before is returned as it is."""
    if record.withheld:
        return record
    return record.model_copy(
        update={
            "snapshots": [_bare(result) for result in record.snapshots],
            "reason": _reason(record.status, record.reason, record.ruled_out),
            "withheld": answers_digest(record),
        }
    )


def withhold_examples(score: Score, record_digest: str) -> Score:
    """The figures of a score, for the record that was published."""
    return score.model_copy(update={"examples": [], "record_digest": record_digest})


def answers_digest(record: Record) -> str:
    """Over everything that was recovered from all snapshots together."""
    answers = [(s.index, s.status, s.sentences, s.token_types) for s in record.snapshots]
    return hashlib.sha256(json.dumps(answers).encode()).hexdigest()


def _bare(result: SnapshotResult) -> SnapshotResult:
    return result.model_copy(
        update={
            "sentences": [],
            "texts": [],
            "token_types": None,
            "note": "",
            "reason": _reason(result.status, result.reason),
        }
    )


def _reason(status: Status, reason: str, ours: bool = False) -> str:
    """What the harness says is told; what an attack says could hold what it has read."""
    told = ours or not reason or status in (Status.TIMEOUT, Status.OUT_OF_MEMORY)
    return reason if told else KEPT_BACK
